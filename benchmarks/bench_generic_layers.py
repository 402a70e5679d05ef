"""Layers that `to_mrs` leaves with PyG's code against the layer that they were, three relations.

    PYTHONPATH=src python benchmarks/bench_generic_layers.py --out benchmarks/results/DATE-generic-layers-cpu.json

One layer of 64 channels, forward and backward (*train*) and without gradients (*eval*), on a random graph without
features of edges. *converted* is what `to_mrs` makes; *all edges* is the same with the messages of every relation
computed for all edges, as for layers whose messages read other edges. Before anything is timed, in float64: a new layer
must equal the plain one, and with relations that differ outputs and gradients of both kinds must be equal.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
from collections.abc import Callable
from pathlib import Path

import torch
from layer_graphs import Size, make_edges
from measure import about, save, seconds
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import FeaStConv, GATv2Conv, MessagePassing, ResGatedGraphConv, TransformerConv
from torch_geometric.utils import coalesce

from graphprism import SplitEdges, to_mrs

CHANNELS = 64


class OwnMessage(MessagePassing):
    """A layer of one's own, with a linear map of each message."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(channels, channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Sums of mapped neighbours."""
        return self.propagate(edge_index, x=x)

    def message(self, x_j: Tensor) -> Tensor:
        """The neighbour, mapped."""
        return self.lin(x_j).relu()


class OwnNodes(OwnMessage):
    """The same with a linear map of each node."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Sums of mapped neighbours."""
        return self.propagate(edge_index, x=self.lin(x))

    def message(self, x_j: Tensor) -> Tensor:
        """The neighbour."""
        return x_j.relu()


LAYERS: dict[str, Callable[[], MessagePassing]] = {
    "GATv2Conv": lambda: GATv2Conv(CHANNELS, CHANNELS),
    "TransformerConv": lambda: TransformerConv(CHANNELS, CHANNELS),
    "ResGatedGraphConv": lambda: ResGatedGraphConv(CHANNELS, CHANNELS),
    "FeaStConv": lambda: FeaStConv(CHANNELS, CHANNELS, heads=2),
    "message = lin(x_j).relu()": lambda: OwnMessage(CHANNELS),
    "propagate(x=lin(x))": lambda: OwnNodes(CHANNELS),
}
GRAPHS = {"small": Size("molecules", 741, 1562, CHANNELS), "large": Size("uniform", 20_000, 200_000, CHANNELS)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=30.0, help="wall time for each layer and graph")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    device = torch.device(args.device)
    if device.type == "cpu":
        torch.set_num_threads(1)
    rows = []
    for graph, size in GRAPHS.items():
        edges = coalesce(make_edges(size)).to(device)
        data = SplitEdges("degree")(Data(edge_index=edges, num_nodes=size.num_nodes))
        for name, make in LAYERS.items():
            torch.manual_seed(0)
            contenders = converted(make(), size.num_nodes, edges)
            check(contenders, data)
            for each in contenders.values():
                each.float().to(device)
            x = torch.randn(size.num_nodes, CHANNELS, device=device)
            times = seconds(passes(contenders, x, data), args.repeats, device, args.seconds)
            for mode in ("train", "eval"):
                taken = {kind: statistics.median(times[f"{kind}, {mode}"]) for kind in contenders}
                ratios = {kind: round(taken[kind] / taken["plain"], 2) for kind in ("converted", "all edges")}
                rows.append(
                    {"graph": graph, "layer": name, "mode": mode, "plain_ms": round(1e3 * taken["plain"], 3), **ratios}
                )
                print(json.dumps(rows[-1]), flush=True)
    if args.out:
        save(args.out, {"about": about(device), "rows": rows})


def converted(plain: MessagePassing, num_nodes: int, edges: Tensor) -> dict[str, torch.nn.Module]:
    """The layer, what becomes of it, and that with all edges for every relation, in float64 with one start."""
    plain = plain.double()
    example = torch.randn(num_nodes, CHANNELS, dtype=torch.double), edges.cpu()
    made = to_mrs(copy.deepcopy(plain), "degree", example=example)
    if made.model.edge_arguments is None:
        raise SystemExit(f"{type(plain).__name__}: messages must depend on no other edges, and the probe says they do")
    whole = copy.deepcopy(made)
    whole.model.edge_arguments = None
    return {"plain": plain, "converted": made, "all edges": whole}


def check(contenders: dict[str, torch.nn.Module], data: Data) -> None:
    """Ends unless a new layer is the plain one, and both kinds of converted layer are one function."""
    plain, made, whole = (each.cpu() for each in contenders.values())
    edges, types = data.edge_index.cpu(), data.edge_type.cpu()
    x = torch.randn(data.num_nodes, CHANNELS, dtype=torch.double)
    with torch.no_grad():
        torch.testing.assert_close(made(x, edges, edge_type=types), plain(x, edges))
        for one, other in zip(made.model.deviations, whole.model.deviations, strict=True):
            other.copy_(one.normal_(0.0, 3.0))
    outs = []
    for model in (made, whole):
        x.grad = None
        out = model(x.requires_grad_(), edges, edge_type=types)
        (out * torch.linspace(-1, 1, out.numel(), dtype=torch.double).view(out.shape)).sum().backward()
        outs.append([out, x.grad, *(each.grad for each in model.parameters())])
    torch.testing.assert_close(*outs)


def passes(contenders: dict[str, torch.nn.Module], x: Tensor, data: Data) -> dict[str, Callable[[], object]]:
    """One pass of each contender, forward and backward or without gradients."""
    rows, edges = x.clone().requires_grad_(), data.edge_index
    given = {"plain": {}, "converted": {"edge_type": data.edge_type}, "all edges": {"edge_type": data.edge_type}}

    def train(kind: str) -> None:
        contenders[kind](rows, edges, **given[kind]).sum().backward()

    def evaluate(kind: str) -> None:
        with torch.no_grad():
            contenders[kind](x, edges, **given[kind])

    runs: dict[str, Callable[[], object]] = {}
    for kind in contenders:
        runs[f"{kind}, train"] = lambda kind=kind: train(kind)
        runs[f"{kind}, eval"] = lambda kind=kind: evaluate(kind)
    return runs


if __name__ == "__main__":
    main()
