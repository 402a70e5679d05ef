"""Checkpoints of grids that are not wanted any more."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from graphprism.training.run import Run

# In the folder of a grid: the keys of its runs, one a line.
RUNS_FILE = "runs.txt"


def forget_lockstep(folder: str | Path, runs: Iterable[Run]) -> None:
    """Removes the checkpoints of all grids that one of these runs was trained in, so that it starts anew.

    >>> forget_lockstep("no such folder", [Run()])
    """
    unwanted = {run.key for run in runs}
    for file in Path(folder).glob(f"lockstep-*/{RUNS_FILE}"):
        if unwanted & set(file.read_text("utf-8").split()):
            shutil.rmtree(file.parent, ignore_errors=True)
