"""A process that trains grids in children of its own; a job is answered with the exit code (see killable.py)."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import torch

from graphprism.datasets import molecules
from graphprism.training import Run, session, train_lockstep
from graphprism.training.full_graph import FullGraphStep
from graphprism.training.lockstep.step import LockstepStep
from tests.training.killable import answer, die_at, exit_code, fork
from tests.training.node_sets import small_set

STEPS = {
    "graph": {"step": (LockstepStep, "step"), "evaluation": (LockstepStep, "evaluate")},
    "node": {"step": (FullGraphStep, "step")},
}


def work(job: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    session._SHARE = 0  # checkpoints after every epoch
    level = job["level"]
    if "die_at" in job:
        die_at(*job["die_at"], **STEPS[level])
    runs = [Run(**run) for run in job["runs"]]
    dataset = molecules(job["graphs"]) if level == "graph" else small_set()
    results = train_lockstep(runs, dataset, folder=job["folder"], accelerator="cpu", at_once=2)
    Path(job["folder"], "results.json").write_text(json.dumps([result.to_json() for result in results]), "utf-8")


if __name__ == "__main__":
    import torchmetrics.functional  # noqa: F401

    answer(lambda job: exit_code(fork(partial(work, job), "grid")))
