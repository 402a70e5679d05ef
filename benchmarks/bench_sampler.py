"""Rates of the neighbour sampler beside a sampler that loops over nodes in Python.

python benchmarks/bench_sampler.py                      # the size of Snap-Patents: 2.9M nodes, 14M edges; 2 GB
python benchmarks/bench_sampler.py --scale 0.05         # a small share of it
python benchmarks/bench_sampler.py --threads 2 --workers 2
python benchmarks/bench_sampler.py --device cuda        # ours on the GPU, the loop on the CPU

Before any timing both samplers are checked: with all neighbours both find the edges of a search of the whole graph;
with few neighbours every sampled edge is an edge of the graph, none is duplicated, and every node that is not a leaf
has min(degree, requested) of them. With one thread, times are CPU times of that thread.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from layer_graphs import PATENTS, Size, make_edges
from measure import about, clock, save, wall
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.sampler import NodeSamplerInput, SamplerOutput

from graphprism.loader import NeighborLoader, NeighborSampler

FAN_OUTS = ((10, 10), (10, 10, 10), (15, 10, 5), (25, 10))
BATCH = 1024


class LoopSampler:
    """A plain Python sampler: lists of neighbours, ``random.sample`` for each node, a dictionary of numbers."""

    def __init__(self, data: Data, num_neighbors: tuple[int, ...], seed: int = 0) -> None:
        self.num_neighbors, self.random = num_neighbors, random.Random(seed)
        order = data.edge_index[1].sort(stable=True).indices
        counts = torch.bincount(data.edge_index[1], minlength=data.num_nodes)
        self.ptr = [0, *counts.cumsum(0).tolist()]
        self.source, self.edge = data.edge_index[0][order].tolist(), order.tolist()

    def sample(self, seeds: list[int]) -> SamplerOutput:
        nodes, number = list(seeds), {node: i for i, node in enumerate(seeds)}
        row, col, edge, begin = [], [], [], 0
        for count in self.num_neighbors:
            frontier, begin = range(begin, len(nodes)), len(nodes)
            for target in frontier:
                first, last = self.ptr[nodes[target]], self.ptr[nodes[target] + 1]
                entries: Any = range(first, last)
                if 0 <= count < last - first:
                    entries = self.random.sample(entries, count)
                for entry in entries:
                    source = self.source[entry]
                    if source not in number:
                        number[source] = len(nodes)
                        nodes.append(source)
                    row.append(number[source])
                    col.append(target)
                    edge.append(self.edge[entry])
        return SamplerOutput(*map(torch.tensor, (nodes, row, col, edge)))


def ours(sampler: NeighborSampler, seeds: Tensor) -> SamplerOutput:
    return sampler.sample_from_nodes(NodeSamplerInput(None, seeds))


def check(data: Data) -> None:
    """Raises unless results are correct."""
    generator = torch.Generator().manual_seed(1)
    seeds = torch.randperm(int(data.num_nodes), generator=generator)[:64]
    reached, edges = seeds, torch.zeros(0, dtype=torch.long)
    for _ in range(2):
        edges = torch.isin(data.edge_index[1], reached).nonzero().view(-1)
        reached = torch.cat([reached, data.edge_index[0, edges]]).unique()
    for name, out in (
        ("ours", ours(NeighborSampler(data, [-1, -1]), seeds)),
        ("loop", LoopSampler(data, (-1, -1)).sample(seeds.tolist())),
    ):
        if not torch.equal(out.edge.sort().values, edges) or not torch.equal(out.node.sort().values, reached):
            raise SystemExit(f"{name}: all neighbours must be the {edges.numel()} edges found by a search")
    degree = torch.bincount(data.edge_index[1], minlength=int(data.num_nodes))
    for name, out in (
        ("ours", ours(NeighborSampler(data, [3, 3]), seeds)),
        ("loop", LoopSampler(data, (3, 3)).sample(seeds.tolist())),
    ):
        same = torch.equal(data.edge_index[:, out.edge], torch.stack([out.node[out.row], out.node[out.col]]))
        into = torch.bincount(out.col, minlength=out.node.numel())
        inner = torch.cat([out.col, torch.arange(seeds.numel())]).unique()
        full = torch.equal(into[inner], degree[out.node[inner]].clamp(max=3))
        if not same or not full or out.edge.unique().numel() < out.edge.numel():
            raise SystemExit(f"{name}: sampled edges must be edges of the graph, three of every node, each once")


def rate(sample: Any, batches: list[Any], device: torch.device) -> dict[str, float]:
    """Median over batches of sampled edges a second, and of the time of a batch."""
    times, edges = [], []
    now = clock if device.type == "cpu" else wall
    for batch in batches:
        begin = now(device)
        out = sample(batch)
        times.append(now(device) - begin)
        edges.append(out.edge.numel())
    rates = [count / took for count, took in zip(edges, times, strict=True)]
    return {
        "million_edges_per_s": round(statistics.median(rates) / 1e6, 3),
        "batch_ms": round(1e3 * statistics.median(times), 3),
        "edges": round(statistics.median(edges)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the nodes and edges of Snap-Patents")
    parser.add_argument("--skew", type=float, default=0.5, help="0 is uniform, 0.9 has large hubs")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0, help="of a loader that is timed as well, without features")
    parser.add_argument("--device", type=torch.device, default="cpu", help="where our sampler works")
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    num_nodes, num_edges = (round(options.scale * each) for each in PATENTS)
    check(Data(edge_index=make_edges(Size("small", 3_000, 20_000, 32, options.skew)), num_nodes=3_000))
    data = Data(edge_index=make_edges(Size("patents", num_nodes, num_edges, 32, options.skew)), num_nodes=num_nodes)
    device: torch.device = options.device
    there = Data(edge_index=data.edge_index.to(device), num_nodes=num_nodes)
    generator = torch.Generator().manual_seed(0)
    seeds = torch.randint(num_nodes, (options.batches + 3, BATCH), generator=generator)
    seeds = [each.unique() for each in seeds]
    found: dict[str, Any] = {}
    for fan_out in FAN_OUTS:
        begin = time.perf_counter()
        sampler = NeighborSampler(there, list(fan_out))
        built = time.perf_counter() - begin
        for batch in seeds[:3]:
            ours(sampler, batch)
        row: dict[str, Any] = {"ours": rate(lambda batch, own=sampler: ours(own, batch), seeds[3:], device)}
        apart = NeighborSampler(there, list(fan_out), disjoint=True)
        row["ours, disjoint"] = rate(lambda batch, own=apart: ours(own, batch), seeds[3:], device)
        loop = LoopSampler(data, fan_out)
        row["loop"] = rate(lambda batch, own=loop: own.sample(batch.tolist()), seeds[3:8], torch.device("cpu"))
        row["times_loop"] = round(row["ours"]["million_edges_per_s"] / row["loop"]["million_edges_per_s"], 1)
        row["build_s"] = round(built, 2)
        if options.workers:
            nodes = torch.cat(seeds)
            workers = {"num_workers": options.workers, "persistent_workers": True}
            loader = NeighborLoader(data, list(fan_out), nodes, batch_size=BATCH, **workers)
            for _ in loader:  # starts the workers
                pass
            begin = time.perf_counter()
            edges = sum(batch.num_edges for batch in loader)
            row["loader_million_edges_per_s"] = round(edges / (time.perf_counter() - begin) / 1e6, 3)
        found[str(list(fan_out))] = row
        print(fan_out, row, flush=True)
    if options.out is not None:
        size = {"nodes": num_nodes, "edges": num_edges, "skew": options.skew, "seeds_per_batch": BATCH}
        save(options.out, {"about": about(device), **size, **found})


if __name__ == "__main__":
    main()
