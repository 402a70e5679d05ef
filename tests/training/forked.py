"""A process that trains in children of its own, so that they can be killed; it imports everything once for all tests.

It reads jobs as JSON, one per line, and answers each with the exit codes of its processes. It never runs a backward
pass itself, as torch forbids those in children of a process that did.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import torch

import graphprism.training.write_whole
from graphprism.datasets import molecules
from graphprism.training import Run, train


def die_at(call: str, count: int) -> None:
    """Kills this process when it calls a function for the ``count``-th time."""
    owner, name = {
        "step": (torch.optim.AdamW, "step"),
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


def work(job: dict[str, Any], rank: int, port: int) -> None:
    """Trains, in a child; the result of process 0 is written beside the checkpoints."""
    torch.set_num_threads(1)
    ranks = job.get("ranks", 1)
    if ranks > 1:
        places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "GROUP_RANK": 0}
        os.environ |= {name: str(value) for name, value in places.items()}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "tests"}
    if "die_at" in job:
        die_at(*job["die_at"])
    result = train(Run(**job["run"]), molecules(job["graphs"]), folder=job["folder"], accelerator="cpu", devices=ranks)
    if rank == 0:
        Path(job["folder"], "result.json").write_text(result.to_json(), "utf-8")


def fork(job: dict[str, Any], rank: int, port: int) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work(job, rank, port)
        code = 0
    except BaseException as error:
        print(f"process {rank}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def main() -> None:
    import lightning.fabric
    import torchmetrics.functional  # noqa: F401

    print(json.dumps(lightning.fabric.__version__), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        port = free_port()
        children = [fork(job, rank, port) for rank in range(job.get("ranks", 1))]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(json.dumps(codes), flush=True)


if __name__ == "__main__":
    main()
