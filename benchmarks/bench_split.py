"""Time and memory of splitting the edges of a large random graph by degree.

Prints one JSON line per size, after a sample of the edges has been checked against the definition of the split:

    python benchmarks/bench_split.py                 # 10^8 edges
    python benchmarks/bench_split.py --growth        # 10^5, 10^6 and 10^7 edges
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time

import torch
from torch import Tensor

from graphprism.splitting import Graph, by_order
from graphprism.training.provenance import processor

_CHECKED_EDGES = 16


def random_graph(num_nodes: int, num_edges: int, seed: int) -> Graph:
    """A directed graph whose edges join nodes drawn uniformly."""
    generator = torch.Generator().manual_seed(seed)
    return Graph(torch.randint(num_nodes, (2, num_edges), generator=generator), num_nodes)


def check_sample(graph: Graph, edge_type: Tensor) -> None:
    """Compares some edges with the definition, counting the degree of each end over all edges."""
    generator = torch.Generator().manual_seed(1)
    for edge in torch.randint(edge_type.numel(), (_CHECKED_EDGES,), generator=generator).tolist():
        source, target = (int((graph.edge_index[0] == node).sum()) for node in graph.edge_index[:, edge])
        expected = 0 if source < target else 1 if source > target else 2
        if int(edge_type[edge]) != expected:
            raise SystemExit(f"edge {edge} must have relation {expected}, got {int(edge_type[edge])}")


def measure(num_nodes: int, num_edges: int, seed: int) -> dict[str, object]:
    """Splits one graph; the peak is that of the whole process so far, edges and check included."""
    graph = random_graph(num_nodes, num_edges, seed)
    begin = time.perf_counter()
    edge_type = by_order("degree")(graph)
    seconds = time.perf_counter() - begin
    check_sample(graph, edge_type)
    return {
        "split": "by_order('degree')",
        "edges": num_edges,
        "nodes": num_nodes,
        "seconds": round(seconds, 4),
        "peak_rss_gb": round(peak_memory() / 1e9, 3),
        "relations": torch.bincount(edge_type, minlength=3).tolist(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "cpu": processor(),
    }


def peak_memory() -> int:
    """Largest resident memory of this process, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts in kilobytes


def main() -> None:
    """Reads the command line, measures, prints."""
    parser = argparse.ArgumentParser(description="Time and memory of by_order('degree') on a random graph.")
    parser.add_argument("--edges", type=float, default=1e8, help="number of edges (default 1e8)")
    parser.add_argument("--nodes", type=float, default=1e7, help="number of nodes (default 1e7)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--growth", action="store_true", help="1e5, 1e6 and 1e7 edges, with ten edges per node")
    options = parser.parse_args()
    sizes = [(10**k // 10, 10**k) for k in (5, 6, 7)] if options.growth else [(int(options.nodes), int(options.edges))]
    by_order("degree")(random_graph(10, 100, options.seed))  # the first call starts the threads
    for num_nodes, num_edges in sizes:
        print(json.dumps(measure(num_nodes, num_edges, options.seed)), flush=True)


if __name__ == "__main__":
    main()
