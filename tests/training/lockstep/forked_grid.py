"""A process that trains grids in children of its own; a job is answered with the exit code (see killable.py)."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch

from graphprism.datasets import molecules
from graphprism.training import Run, train_lockstep
from graphprism.training.lockstep.step import LockstepStep
from tests.training.killable import answer, die_at, exit_code, fork

engine = sys.modules["graphprism.training.lockstep.train_lockstep"]


def work(job: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    engine._KEPT_EVERY = -1.0  # after every epoch
    if "die_at" in job:
        die_at(*job["die_at"], step=(LockstepStep, "step"), evaluation=(LockstepStep, "evaluate"))
    runs = [Run(**run) for run in job["runs"]]
    results = train_lockstep(runs, molecules(job["graphs"]), folder=job["folder"], device="cpu", at_once=2)
    Path(job["folder"], "results.json").write_text(json.dumps([result.to_json() for result in results]), "utf-8")


if __name__ == "__main__":
    import torchmetrics.functional  # noqa: F401

    answer(lambda job: exit_code(fork(partial(work, job), "grid")))
