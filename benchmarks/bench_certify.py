"""Seconds and memory of `certify`: one graph of 3M nodes and 14M edges, and a dataset of 12,000 molecules as one batch.

Usage: ``python benchmarks/bench_certify.py large`` or ``python benchmarks/bench_certify.py zinc12k`` (needs the folder
of data in ``GRAPHPRISM_DATA``). Prints one JSON line. A case per process: the peak of memory is that of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path

import numpy as np
import torch

from graphprism.analysis.certificate import Certificate, certify
from graphprism.io import read_graph
from graphprism.splitting import Graph, by_order

NUM_NODES, NUM_EDGES = 3_000_000, 14_000_000


def large_graph(seed: int = 0) -> Graph:
    """Random edges in both directions with a few hubs, so that degrees differ as they do in citation graphs."""
    rng = np.random.default_rng(seed)
    source = (NUM_NODES * rng.random(NUM_EDGES // 2) ** 1.5).astype(np.int64)
    target = rng.integers(0, NUM_NODES, NUM_EDGES // 2)
    edges = np.stack([np.concatenate([source, target]), np.concatenate([target, source])])
    return Graph(torch.from_numpy(edges), NUM_NODES)


def check_large(certificate: Certificate, graph: Graph, edge_type: torch.Tensor) -> None:
    """An order gives acyclic relations up and down, and the pairs of a sample agree with their 2 x 2 minors."""
    up, down, _ = certificate.relations
    assert up.acyclic
    assert down.acyclic
    assert up.num_edges == down.num_edges
    assert sum(relation.num_edges for relation in certificate.relations) == NUM_EDGES
    source, target = graph.edge_index
    degree = torch.bincount(target, minlength=NUM_NODES).double()  # both ways: what enters a node also leaves it
    weight = (degree[source] * degree[target]).rsqrt() if certificate.aggregation == "sym" else torch.ones(NUM_EDGES)
    in_degrees = torch.zeros(NUM_NODES * 3, dtype=torch.float64).index_add(0, target * 3 + edge_type, weight.double())
    unit = torch.nn.functional.normalize(in_degrees.view(NUM_NODES, 3), dim=1)
    a, b = unit[torch.randint(NUM_NODES, (2, 1_000_000), generator=torch.Generator().manual_seed(0))]
    share = (torch.linalg.cross(a, b).norm(dim=1) > 1e-9).double().mean().item()
    assert certificate.share is not None
    assert abs(share - certificate.share) < 0.002, (share, certificate.share)
    assert certificate.witness is not None
    assert torch.linalg.cross(*unit[list(certificate.witness)]).norm() > 1e-9


def memory(field: str) -> int:
    """A figure of this process in megabytes, as the kernel has it."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) // 1024


def check_zinc12k(certificate: Certificate) -> None:
    assert certificate.num_graphs == 12_000
    assert all(relation.acyclic for relation in certificate.relations[:2])
    assert sum(certificate.rank_counts) == 12_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=["large", "zinc12k"])
    parser.add_argument("--aggregation", default="sum")
    arguments = parser.parse_args()
    large = arguments.case == "large"
    graph = large_graph() if large else read_graph(Path(os.environ["GRAPHPRISM_DATA"]) / "zinc12k.npz")
    edge_type = by_order("degree")(graph)
    certify(Graph(torch.tensor([[0, 1], [1, 0]]), 2), "degree")  # imports are not what is measured
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before, start = memory("VmRSS"), time.perf_counter()
    certificate = certify(graph, edge_type, num_relations=3, aggregation=arguments.aggregation)
    seconds, peak = time.perf_counter() - start, memory("VmHWM")
    if large:
        check_large(certificate, graph, edge_type)
    else:
        check_zinc12k(certificate)
    result = {
        "case": arguments.case,
        "aggregation": arguments.aggregation,
        "seconds": round(seconds, 2),
        "megabytes_beyond_the_graph": peak - before,
        "graphs": certificate.num_graphs,
        "nodes": certificate.num_nodes,
        "edges": certificate.num_edges,
        "share": certificate.share,
        "mean_rank": certificate.mean_rank,
        "threads": torch.get_num_threads(),
        "machine": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
