"""Training by sampling on a graph of the size of Snap-Patents, with its memory: two CPU cores, less than 6 GB.

python benchmarks/bench_sampled_snap.py                     # 2.9M nodes, 14M edges, 269 features; some minutes
python benchmarks/bench_sampled_snap.py --scale 0.02 --steps 20
python benchmarks/bench_sampled_snap.py --device cuda               # sampled on the CPU, trained on the GPU
python benchmarks/bench_sampled_snap.py --device cuda --graph-on cuda   # graph and features on the GPU, too

Features are a memory-mapped file of float16. Relations are found once on the whole graph and carried by the loader.
First, on a small graph, a batch with all neighbours and layer-wise inference must give the outputs of the whole graph.
Then some steps are timed, with their parts, and the inference of all nodes. Peak resident memory is that of the
process, including the graph and the pages of mapped features that were read. CPU times, which other processes hardly
affect, are given beside wall times. On a GPU every time is read after a sync, and its peak memory is given as well.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from layer_graphs import PATENTS, Size, make_edges
from measure import about, save, wall
from torch_geometric.data import Data

from graphprism.loader import NeighborLoader, layerwise
from graphprism.nn import GNN
from graphprism.transforms import SplitEdges

FEATURES, CLASSES, WIDTH = 269, 5, 32  # 32 is the width of the paper on Snap-Patents


def make_data(size: Size, file: Path) -> Data:
    """A random graph whose classes follow from features; rows are written in parts and mapped."""
    generator = torch.Generator().manual_seed(0)
    table = np.memmap(file, np.float16, "w+", shape=(size.num_nodes, FEATURES))
    plane = torch.randn(FEATURES, CLASSES, generator=generator)
    classes = []
    for first in range(0, size.num_nodes, 1 << 16):
        last = min(first + (1 << 16), size.num_nodes)
        rows = (torch.rand(last - first, FEATURES, generator=generator) < 0.1).float()
        table[first:last] = rows.half().numpy()
        classes.append((rows @ plane).argmax(1))
    table.flush()
    del table
    x = torch.from_numpy(np.memmap(file, np.float16, "r+", shape=(size.num_nodes, FEATURES)))
    data = Data(edge_index=make_edges(size), num_nodes=size.num_nodes)
    data = SplitEdges("degree")(data)
    del data.node_order
    data.x, data.y = x, torch.cat(classes)
    data.fold = torch.randint(4, (size.num_nodes,), generator=generator)
    return data


def make_model(layers: int) -> GNN:
    torch.manual_seed(0)
    return GNN("mrs-sage", WIDTH, CLASSES, layers, in_channels=FEATURES, encode=False, jk="max", normalize=True)


def check(file: Path) -> None:
    """Raises unless results are correct."""
    data, model = make_data(Size("small", 2_000, 12_000, WIDTH, 0.5), file), make_model(2).double().eval()
    with torch.no_grad():
        expected = model(data.x.double(), data.edge_index, data.edge_type)
        for batch in NeighborLoader(data, [-1, -1], torch.arange(200), batch_size=64):
            out = model(batch.x.double(), batch.edge_index, batch.edge_type)[: batch.batch_size]
            if not torch.allclose(out, expected[batch.input_id]):
                raise SystemExit("a batch with all neighbours must give the outputs of the whole graph")
        if not torch.allclose(layerwise(model, data, batch_size=300), expected):
            raise SystemExit("inference layer by layer must give the outputs of the whole graph")


def memory(key: str) -> float:
    """Gigabytes, from the kernel's account of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) * 1024 / 1e9


def peaks(device: torch.device) -> dict[str, float]:
    """Gigabytes of the process, and of tensors on a GPU."""
    found = {"peak_rss_gb": round(memory("VmHWM"), 2)}
    if device.type == "cuda":
        found["peak_device_gb"] = round(torch.cuda.max_memory_allocated(device) / 1e9, 2)
    return found


def workers_peak(loader: NeighborLoader) -> float:
    """Gigabytes of the largest worker, which ends with its iterator."""
    loader._iterator = None
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e9


def train(data: Data, model: GNN, options: argparse.Namespace) -> dict[str, Any]:
    """Some steps of an epoch, with the time of their parts."""
    device = torch.device(options.device)
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    nodes = (data.fold <= 1).nonzero().view(-1)
    workers = {"num_workers": options.workers} if options.workers else {}
    fan_out = [options.neighbors] * options.layers
    loader = NeighborLoader(data, fan_out, nodes, batch_size=options.batch_size, shuffle=True, **workers)
    parts: dict[str, list[float]] = {"load_ms": [], "step_ms": [], "load_cpu_ms": [], "step_cpu_ms": []}
    losses, sizes, edges = [], [], []
    begin, begin_cpu = wall(device), time.process_time()
    for step, found in enumerate(loader):
        batch = found.to(device)
        loaded, loaded_cpu = wall(device), time.process_time()
        hops = (batch.num_sampled_nodes, batch.num_sampled_edges)
        out = model(
            batch.x.float(),
            batch.edge_index,
            batch.edge_type,
            num_sampled_nodes_per_hop=hops[0],
            num_sampled_edges_per_hop=hops[1],
        )
        loss = torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        end, end_cpu = wall(device), time.process_time()
        if step >= 3:
            parts["load_cpu_ms"].append(1e3 * (loaded_cpu - begin_cpu))
            parts["step_cpu_ms"].append(1e3 * (end_cpu - loaded_cpu))
            parts["load_ms"].append(1e3 * (loaded - begin))
            parts["step_ms"].append(1e3 * (end - loaded))
            sizes.append(batch.num_nodes)
            edges.append(batch.num_edges)
        losses.append(loss.item())
        begin, begin_cpu = wall(device), time.process_time()
        if step + 1 == options.steps:
            break
    total = sum(parts["load_ms"]) + sum(parts["step_ms"])
    seconds = total / 1e3 / len(sizes)
    cpu_seconds = (sum(parts["load_cpu_ms"]) + sum(parts["step_cpu_ms"])) / 1e3 / len(sizes)
    return {
        **{name: round(statistics.median(times), 1) for name, times in parts.items()},
        "sampled_nodes": round(statistics.median(sizes)),
        "sampled_edges": round(statistics.median(edges)),
        "steps_per_s": round(1 / seconds, 2),
        "seed_nodes_per_s": round(options.batch_size / seconds),
        "epoch_minutes": round(len(loader) * seconds / 60, 1),
        "epoch_cpu_minutes": round(len(loader) * cpu_seconds / 60, 1),
        "loss_first_last": [round(statistics.fmean(losses[:3]), 3), round(statistics.fmean(losses[-3:]), 3)],
        **peaks(device),
        # mapped features and the graph are shared with this process, and counted again
        "workers_peak_rss_gb": round(workers_peak(loader), 2),
    }


def infer(data: Data, model: GNN, device: torch.device) -> dict[str, Any]:
    """All nodes with all their neighbours; a graph on the CPU stays there."""
    model.to(data.edge_index.device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    begin, begin_cpu = wall(device), time.process_time()
    out = layerwise(model, data, batch_size=20_000, device=device)
    seconds, cpu_seconds = wall(device) - begin, time.process_time() - begin_cpu
    right = out.argmax(1) == data.y
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu_seconds, 1),
        "nodes_per_s": round(int(data.num_nodes) / seconds),
        "accuracy_val": round(100 * float(right[data.fold == 2].float().mean()), 2),
        **peaks(device),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the nodes and edges of Snap-Patents")
    parser.add_argument("--skew", type=float, default=0.5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="where the network is")
    parser.add_argument("--graph-on", default="cpu", help="where the graph is sampled and features are read")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--neighbors", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--training-only", action="store_true", help="without the inference of all nodes")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder) / "small")
        num_nodes, num_edges = (round(options.scale * each) for each in PATENTS)
        begin = time.perf_counter()
        data = make_data(Size("patents", num_nodes, num_edges, WIDTH, options.skew), Path(folder) / "features")
        found["made_s"], found["made_peak_rss_gb"] = round(time.perf_counter() - begin, 1), round(memory("VmHWM"), 2)
        print(json.dumps(found), flush=True)
        model, data = make_model(options.layers), data.to(options.graph_on)
        found["training"] = train(data, model, options)
        print(json.dumps(found["training"]), flush=True)
        if not options.training_only:
            found["inference"] = infer(data, model, torch.device(options.device))
            print(json.dumps(found["inference"]), flush=True)
    if options.out is not None:
        settings = {name: value for name, value in vars(options).items() if name != "out"}
        save(options.out, {"about": about(torch.device(options.device)), "settings": settings, **found})


if __name__ == "__main__":
    main()
