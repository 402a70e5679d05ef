"""Where a result comes from."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import torch

from graphprism.training.hardware import hardware
from graphprism.training.source_commit import source_commit
from graphprism.training.versions import versions


def origin(device: torch.device, count: int = 1, runs_at_once: int = 1) -> dict[str, Any]:
    """Hardware, versions, commit and time, as `graphprism.results.RunResult` calls them.

    It asks git, so results that end together share one.

    >>> sorted(origin(torch.device("cpu")))
    ['commit', 'finished_at', 'hardware', 'versions']
    """
    return {
        "hardware": hardware(device, count, runs_at_once),
        "versions": versions(),
        "commit": source_commit(),
        "finished_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
