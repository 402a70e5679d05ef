"""Several groups of runs on one device, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from graphprism.results import RunResult
from graphprism.training.epoch_report import EpochReport
from graphprism.training.lockstep.lockstep_training import LockstepTraining
from graphprism.training.lockstep.table_dataset import TableDataset
from graphprism.training.run import Run

# Runs that fill a GPU: groups are trained side by side until they have so many.
_FILLS = 12

Part = tuple[list[Run], TableDataset]


def share_device(
    parts: Iterator[Part],
    make: Callable[[list[Run], TableDataset], LockstepTraining],
    on_epoch: Callable[[EpochReport], None] | None,
    on_result: Callable[[RunResult], None],
) -> None:
    """Trains all parts to their end, a few side by side: three runs alone leave most of a GPU idle.

    In every round each of them trains one epoch in a queue of its own; what a round takes is divided among them by how
    long each was at it.
    """
    active: list[LockstepTraining] = []
    waiting = next(parts, None)
    while active or waiting:
        while waiting and _has_room(active, waiting[0]):
            active.append(make(*waiting))
            waiting = next(parts, None)
        _round([each for each in active if not each.is_finished], on_epoch)
        for each in [each for each in active if each.is_finished]:
            active.remove(each)
            for result in each.results():
                on_result(result)


def _has_room(active: list[LockstepTraining], more: list[Run]) -> bool:
    runs = [run for each in active for run in each.runs]
    # all captured graphs draw what they drop from one generator: two of them at once would disturb each other
    return not runs or (len(runs) + len(more) <= _FILLS and not any(run.dropout for run in (*runs, *more)))


def _round(active: list[LockstepTraining], on_epoch: Callable[[EpochReport], None] | None) -> None:
    begin = time.perf_counter()
    for each in active:
        each.launch()
    spent = [each.wait() for each in active]
    share = (time.perf_counter() - begin) / max(sum(spent), 1e-9)
    for each in active:
        each.collect(share, on_epoch)
