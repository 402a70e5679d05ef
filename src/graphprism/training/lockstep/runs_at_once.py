"""How many runs fit into the memory of a device."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from graphprism.datasets import PackedDataset
from graphprism.training.lockstep.lockstep_group import LockstepGroup
from graphprism.training.lockstep.table_dataset import TableDataset
from graphprism.training.run import Run

# Share of the free memory that is used, and runs at most: beyond, a step does not get faster per run.
_SHARE = 0.8
_MOST = 64
# On a CPU more runs at once do not make any of them faster; a few serve to test the engine.
_MOST_ON_CPU = 8


def runs_at_once(runs: Sequence[Run], dataset: PackedDataset, data: TableDataset, device: torch.device) -> int:
    """Runs to train together, by what one step and one evaluation of a single run take.

    A grid that does not fit is divided evenly, so that no part is much smaller than the others.
    """
    most = _MOST_ON_CPU if device.type == "cpu" else min(_MOST, _fitting(runs[0], dataset, data, device))
    parts = -(-len(runs) // most)
    return -(-len(runs) // parts)


def _fitting(run: Run, dataset: PackedDataset, data: TableDataset, device: torch.device) -> int:
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    group = LockstepGroup([run], dataset, data, device)
    group.measure()
    used = torch.cuda.max_memory_allocated(device) - before
    del group
    torch.cuda.empty_cache()
    return max(1, int(_SHARE * free / max(1, used)))
