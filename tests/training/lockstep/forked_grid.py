"""A process that trains grids in children of its own, so that they can be killed; it imports everything once.

It reads jobs as JSON, one per line, and answers each with the exit code of the child. It never runs a backward pass
itself, as torch forbids those in children of a process that did.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

import graphprism.training.write_whole
from graphprism.datasets import molecules
from graphprism.training import Run, train_lockstep
from graphprism.training.lockstep.lockstep_step import LockstepStep

engine = sys.modules["graphprism.training.lockstep.lockstep_training"]


def die_at(call: str, count: int) -> None:
    """Kills this process when it calls a function for the ``count``-th time."""
    owner, name = {
        "step": (LockstepStep, "step"),
        "evaluation": (LockstepStep, "evaluate"),
        "fsync": (graphprism.training.write_whole.os, "fsync"),
        "replace": (Path, "replace"),
    }[call]
    function, calls = getattr(owner, name), [0]

    def counted(*arguments: Any, **keywords: Any) -> Any:
        calls[0] += 1
        if calls[0] == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **keywords)

    setattr(owner, name, counted)


def work(job: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    engine._KEPT_EVERY = -1.0  # after every epoch
    if "die_at" in job:
        die_at(*job["die_at"])
    runs = [Run(**run) for run in job["runs"]]
    results = train_lockstep(runs, molecules(job["graphs"]), folder=job["folder"], device="cpu", at_once=2)
    Path(job["folder"], "results.json").write_text(json.dumps([result.to_json() for result in results]), "utf-8")


def fork(job: dict[str, Any]) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work(job)
        code = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def main() -> None:
    import torchmetrics.functional  # noqa: F401

    print("ready", flush=True)
    for line in sys.stdin:
        _, status = os.waitpid(fork(json.loads(line)), 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
