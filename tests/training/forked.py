"""A process that trains in children of its own; a job is answered with their exit codes (see killable.py)."""

from __future__ import annotations

import os
import socket
from functools import partial
from pathlib import Path
from typing import Any

import torch

from graphprism.datasets import molecules
from graphprism.training import ProcessLost, Run, train
from tests.training.killable import answer, die_at, exit_code, fork
from tests.training.node_sets import small_links, small_set


def work(job: dict[str, Any], rank: int, port: int) -> None:
    """Trains, in a child; the result of process 0 is written beside the checkpoints."""
    torch.set_num_threads(1)
    ranks = job.get("ranks", 1)
    if ranks > 1:
        places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "GROUP_RANK": 0}
        os.environ |= {name: str(value) for name, value in places.items()}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "tests"}
    if "die_at" in job and rank == job.get("victim", rank):
        die_at(*job["die_at"], step=(torch.optim.AdamW, "step"), adam=(torch.optim.Adam, "step"))
    make = {"graphs": molecules, "nodes": small_set, "links": small_links}
    (dataset,) = (make[level](job[level]) for level in make if level in job)
    try:
        result = train(Run(**job["run"]), dataset, folder=job["folder"], accelerator="cpu", devices=ranks)
    except ProcessLost as error:
        Path(job["folder"], f"lost-{rank}").write_text(str(error), "utf-8")
        raise
    if rank == 0:
        Path(job["folder"], "result.json").write_text(result.to_json(), "utf-8")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def run(job: dict[str, Any]) -> list[int]:
    port = free_port()
    ranks = range(job.get("ranks", 1))
    children = [fork(partial(work, job, rank, port), f"process {rank}") for rank in ranks]
    return [exit_code(child) for child in children]


if __name__ == "__main__":
    import lightning.fabric  # noqa: F401
    import torchmetrics.functional  # noqa: F401

    answer(run)
