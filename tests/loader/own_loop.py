"""A training loop of a user, on sampled nodes or links, in real processes; a job is answered with exit codes."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from graphprism.loader import LinkNeighborLoader, NeighborLoader
from graphprism.nn import GNN
from graphprism.training import mean_over_processes
from tests.loader.graphs import small_data
from tests.training.forked import free_port
from tests.training.killable import answer, exit_code, fork


def losses_of(model: torch.nn.Module, batch: Any, on_links: bool) -> torch.Tensor:
    """The loss of every link or node of a batch."""
    out = model(batch.x, batch.edge_index, batch.edge_type)
    if not on_links:
        seeds = slice(batch.batch_size)
        return torch.nn.functional.cross_entropy(out[seeds], batch.y[seeds], reduction="none")
    source, target = out[batch.edge_label_index]
    score = (source * target).sum(-1)
    return torch.nn.functional.binary_cross_entropy_with_logits(score, batch.edge_label.double(), reduction="none")


def work(job: dict[str, Any], rank: int, port: int) -> None:
    torch.set_num_threads(1)
    ranks = job["ranks"]
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    data, on_links = small_data(norm=None), job["on"] == "links"
    # 240 links or 60 nodes: the last batch is smaller, and has nothing for one of four processes
    options = {"shuffle": True, "seed": 3, "rank": rank, "ranks": ranks, "batch_size": 79 if on_links else 29}
    if on_links:
        loader = LinkNeighborLoader(data, [3, 3], neg_sampling="binary", **options)
    else:
        loader = NeighborLoader(data, [3, 3], **options)
    torch.manual_seed(0)
    network = GNN("mrs-sage", 8, 4, 2, in_channels=5, encode=False, start="independent").double()
    model = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    curve = []
    for _ in range(3):
        for batch in loader:
            optimizer.zero_grad()
            losses = losses_of(model, batch, on_links)
            mean_over_processes(losses).backward()
            optimizer.step()
            total = torch.stack([losses.detach().sum(), torch.tensor(float(losses.numel()), dtype=torch.float64)])
            dist.all_reduce(total)
            curve.append(float(total[0] / total[1]))
    if rank == 0:
        Path(job["file"]).write_text(json.dumps(curve), "utf-8")
    dist.barrier()
    os._exit(0)  # without waiting for threads of gloo


def run(job: dict[str, Any]) -> list[int]:
    port = free_port()
    children = [fork(partial(work, job, rank, port), f"process {rank}") for rank in range(job["ranks"])]
    return [exit_code(child) for child in children]


if __name__ == "__main__":
    answer(run)
