"""Time of the collapse metrics on one large graph and on many small ones, as one JSON line.

python benchmarks/bench_metrics.py [--device cuda] [--repeats 5]
"""

import argparse
import json
import platform
import statistics
import subprocess
import time

import torch

from graphprism.analysis.collapse import dirichlet_energy, effective_rank, norms, numerical_rank, rank_one_distance

SPECTRAL = {
    "rank_one_distance": rank_one_distance,
    "effective_rank": effective_rank,
    "numerical_rank": numerical_rank,
    "norms": norms,
}


def large_graph(device):
    """10^5 nodes, 10^6 edges, 256 channels, float32."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(100_000, 256, generator=generator)
    edge_index = torch.randint(100_000, (2, 1_000_000), generator=generator)
    return x.to(device), edge_index.to(device), None


def small_graphs(device):
    """12,000 graphs of 9 to 37 nodes, as ZINC has, with two edges per node and 64 channels, float32."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(9, 38, (12_000,), generator=generator)
    batch = torch.arange(12_000).repeat_interleave(sizes)
    first, size = (sizes.cumsum(0) - sizes)[batch].repeat(2), sizes[batch].repeat(2)
    draw = torch.rand(2, size.numel(), generator=generator)
    edge_index = first + (draw * size).long().clamp(max=size - 1)
    return torch.randn(batch.numel(), 64, generator=generator).to(device), edge_index.to(device), batch.to(device)


INPUTS = {"large_graph": large_graph, "small_graphs": small_graphs}


def reference_distance(x):
    """The definition of `rank_one_distance`, with dense singular values."""
    x = x.double()
    outer = torch.outer(x[:, x.norm(dim=0).argmax()], x[x.norm(dim=1).argmax()])
    outer = outer * torch.sign((x * outer).sum())
    nuclear = [torch.linalg.svdvals(matrix).sum() for matrix in (x, outer)]
    return torch.linalg.svdvals(x / nuclear[0] - outer / nuclear[1]).sum()


def check(x, batch):
    """Compares with the definition, on the first graphs or nodes."""
    parts = [x[:500]] if batch is None else [x[batch == graph] for graph in range(20)]
    number = None if batch is None else int((batch < 20).sum())
    values = rank_one_distance(parts[0])[None] if batch is None else rank_one_distance(x[:number], batch[:number])
    torch.testing.assert_close(values, torch.stack([reference_distance(part) for part in parts]), rtol=1e-10, atol=0)


def seconds(function, repeats, device):
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        function()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
    times = times[1:]  # the first call initialises libraries
    return {"median": statistics.median(times), "min": min(times), "max": max(times)}


def hardware(device):
    return torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()


def commit():
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    results = {}
    for name, build in INPUTS.items():
        x, edge_index, batch = build(options.device)
        check(x, batch)
        calls = {metric: lambda f=f, x=x, batch=batch: f(x, batch) for metric, f in SPECTRAL.items()}
        calls["dirichlet_energy"] = lambda x=x, e=edge_index, batch=batch: dirichlet_energy(x, e, "sym", batch=batch)
        results[name] = {metric: seconds(call, options.repeats, options.device) for metric, call in calls.items()}
    versions = {"torch": torch.__version__, "python": platform.python_version()}
    about = {"hardware": hardware(options.device), "threads": torch.get_num_threads(), "versions": versions}
    print(json.dumps({"bench": "metrics", "commit": commit(), **about, "seconds": results}))


if __name__ == "__main__":
    main()
