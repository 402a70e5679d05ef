"""One epoch of MRS-Dir-GCN on a graph of the size of Snap-Patents: time and peak memory.

python benchmarks/bench_snap.py                    # this machine's CPU, two threads; takes 10 GB and some minutes
python benchmarks/bench_snap.py --scale 0.05       # a small share of it, with the published formulation beside ours
python benchmarks/bench_snap.py --device cuda      # a GPU, with the published formulation beside ours

An epoch is a training step (forward, backward, Adam) and the scores after it. The network has six layers, 32 channels,
both directions, jumping knowledge by max and rows of unit norm: the paper's best on Snap-Patents. Before any timing
both formulations must give the same outputs and gradients on a small graph.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from layer_graphs import PATENTS, Size, make_edges
from measure import about, clock, save
from published import PublishedDirGNN

from graphprism.datasets import PackedDataset
from graphprism.nn import GNN
from graphprism.ops import RelationalAdj
from graphprism.training import Run, build_model
from graphprism.training.full_graph import CapturedFullGraphStep, FullGraphStep
from graphprism.training.node_data import NodeData
from graphprism.training.session import restore_torch_state

FEATURES, CLASSES, WIDTH = 269, 5, 32
RUN = Run(
    "snap-patents", "mrs-dir-gcn", layers=6, width=WIDTH, jk="max", normalize=True, decay=0.0, row_normalise=True,
    optimizer="adam", lr=0.01, clip=0.0, schedule="constant", warmup=0, batch_size=None,
)  # fmt: skip
SMALL = Size("small", 500, 4_000, WIDTH, 0.5)


def make_dataset(size: Size) -> PackedDataset:
    """Random classes, a tenth of the features set, half of the nodes for training."""
    generator = torch.Generator().manual_seed(0)
    x = torch.empty(size.num_nodes, FEATURES, dtype=torch.uint8)
    for part in x.split(1 << 18):
        part.copy_(torch.rand(part.shape, generator=generator) < 0.1)
    split = torch.randint(4, (size.num_nodes, 1), generator=generator)
    return PackedDataset(
        name="snap-patents", level="node", task="multiclass", metric="accuracy", x=x, edge_index=make_edges(size),
        y=torch.randint(CLASSES, (size.num_nodes,), generator=generator), node_ptr=torch.tensor([0, size.num_nodes]),
        edge_ptr=torch.tensor([0, size.num_edges]), train_mask=split <= 1, val_mask=split == 2, test_mask=split == 3,
        directed=True, num_classes=CLASSES,
    )  # fmt: skip


def as_published(data: NodeData) -> NodeData:
    """The same network on plain `edge_index`, without preparation."""
    adj = data.adj
    assert adj is not None
    assert adj.edge_type is not None
    edges, types = adj.edge_index.long(), adj.edge_type.long()
    return replace(data, adj=RelationalAdj(edges, types, num_relations=adj.num_relations, num_nodes=adj.size[0]))


def check(device: torch.device) -> None:
    """Raises unless both formulations give equal outputs and gradients on a small graph."""
    dataset = make_dataset(SMALL)
    data, model = NodeData.prepare(RUN, dataset, device), build_model(RUN, dataset).to(device)
    with torch.no_grad():  # a shared start would hide swapped relations
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape))
    expected = model(data.x, data.adj)
    expected_grad = torch.autograd.grad(expected.square().sum(), model.convs[0].conv_in.lin.weight)[0]
    for share in (False, True):
        theirs = PublishedDirGNN(model, share).to(device)
        for _ in range(2):  # the second forward pass uses the cache
            out = theirs(data.x, as_published(data).adj)
        grad = torch.autograd.grad(out.square().sum(), theirs.along[0].lin.weight)[0]
        grad = grad.view(3, -1, grad.size(1)).transpose(1, 2)
        for ours, other in ((expected, out), (expected_grad, grad)):
            error = float((ours - other).detach().norm() / other.detach().norm())
            if not error < 1e-4:
                raise SystemExit(f"both formulations must agree to 1e-4, got a relative error of {error}")


def measure(step: Callable[[int], None], device: torch.device, epochs: int) -> dict[str, float]:
    """Median time of an epoch after one to warm up, and the peak of memory."""
    times = []
    for epoch in range(epochs + 1):
        if epoch == 1 and device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        begin = clock(device)
        step(epoch)
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(clock(device) - begin)
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated()
    else:  # in kilobytes, and of the whole process: the data set, its preparation and all epochs
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"epoch_ms": round(1e3 * statistics.median(times[1:]), 2), "peak_gb": round(peak / 1e9, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int, help="timed, after one that is not: 1, on a GPU 10")
    parser.add_argument("--skew", type=float, default=0.5, help="0 is uniform, 0.9 has large hubs")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the nodes and edges of Snap-Patents")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    epochs = options.epochs or (10 if device.type == "cuda" else 1)
    check(device)
    sizes = (round(options.scale * each) for each in PATENTS)
    dataset = make_dataset(Size("patents", *sizes, WIDTH, options.skew))
    begin = time.perf_counter()
    data = NodeData.prepare(RUN, dataset, device)
    found: dict[str, Any] = {"prepare_s": round(time.perf_counter() - begin, 2)}
    print(f"prepared in {found['prepare_s']} s", flush=True)

    def network() -> GNN:
        return build_model(RUN, dataset)

    steps = {"graphprism": lambda data: FullGraphStep(RUN, network(), data)}
    if device.type == "cuda":
        steps["graphprism, captured"] = lambda data: CapturedFullGraphStep(RUN, network(), data)
    if device.type == "cuda" or options.scale < 1:  # else it takes minutes and 20 GB
        steps["published"] = lambda data: FullGraphStep(RUN, PublishedDirGNN(network()), data)
        steps["published, one cache"] = lambda data: FullGraphStep(RUN, PublishedDirGNN(network(), share=True), data)
    for name, make in steps.items():
        if name == "published":  # from here on without what ours has prepared
            data = as_published(data)
        with restore_torch_state(device):  # as training does: products of float32 in TF32 on a GPU, for all contenders
            found[name] = measure(make(data), device, epochs)
        if "captured" in name:  # its memory was allocated before, during capture
            del found[name]["peak_gb"]
        print(f"{name}: {json.dumps(found[name])}", flush=True)
    ours = found["graphprism"]
    for name in [name for name in found if name.startswith("published")]:
        ratio = found[f"{name} / graphprism"] = {key: round(found[name][key] / ours[key], 2) for key in ours}
        print(f"{name} / graphprism: {json.dumps(ratio)}")
    if options.out is not None:
        save(options.out, {"about": about(device), "skew": options.skew, "scale": options.scale, **found})


if __name__ == "__main__":
    main()
