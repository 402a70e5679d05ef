"""Our layers beside their counterparts in PyG, with the same weights, on one graph, and the check that both agree."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from layer_graphs import Size, make_edges
from torch import Tensor
from torch_geometric.nn import (
    DirGNNConv,
    EdgeConv,
    GATConv,
    GCNConv,
    GINConv,
    GINEConv,
    ResGatedGraphConv,
    RGCNConv,
    SAGEConv,
)
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from graphprism.nn import (
    DirConv,
    MRSConv,
    MRSGATConv,
    MRSGatedGCNConv,
    MRSGCNConv,
    MRSGCNEConv,
    MRSGINConv,
    MRSGINEConv,
    MRSSAGEConv,
)
from graphprism.ops import RelationalAdj
from graphprism.splitting import Graph, by_order
from graphprism.testing import molecules

RELATIONS = 3
Call = Callable[[Tensor, Tensor | None], Tensor]  # from rows of nodes and of edges
Grads = tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class SplitGraph:
    """A graph whose edges are split by degree. ``edge_index`` (2, E), ``edge_type`` (E,)"""

    edge_index: Tensor
    edge_type: Tensor
    num_nodes: int

    def adj(self, norm: str, dtype: torch.dtype) -> RelationalAdj:
        """Prepared for many passes; ``"none"`` leaves the edges without weights."""
        adj = RelationalAdj(self.edge_index, self.edge_type, num_relations=RELATIONS, num_nodes=self.num_nodes)
        return adj if norm == "none" else adj.normalized(norm, dtype)


def split_graph(size: Size | None, device: torch.device) -> SplitGraph:
    """A random graph of a size, or a batch of 32 molecules of ZINC's sizes where it is `None`."""
    if size is None:
        batch = molecules(32)
        starts = torch.tensor([0, *(graph.num_nodes for graph in batch)]).cumsum(0).tolist()
        parts = [graph.edge_index + start for graph, start in zip(batch, starts[:-1], strict=True)]
        edge_index, num_nodes = torch.cat(parts, dim=1).to(device), starts[-1]
    else:
        edge_index, num_nodes = make_edges(size).to(device), size.num_nodes
    return SplitGraph(edge_index, by_order("degree")(Graph(edge_index, num_nodes)), num_nodes)


class Same(NamedTuple):
    """A parameter of ours and the one of PyG that has its values, transposed where PyG stores (out, in)."""

    ours: Tensor
    theirs: Tensor
    is_transposed: bool = False

    def to_ours(self, tensor: Tensor) -> Tensor:
        """A tensor of the form of theirs in that of ours."""
        return (tensor.t() if self.is_transposed else tensor).reshape(self.ours.shape)


@dataclass(frozen=True)
class Layers:
    """Our layer, PyG's, and the parameters that are the same in both."""

    ours: torch.nn.Module
    theirs: torch.nn.Module
    same: list[Same]


@dataclass(frozen=True)
class Pair:
    """A layer of ours and its counterpart in PyG.

    Args:
        name: of our layer.
        partner: name of PyG's.
        make: both layers for a number of channels, with their own weights.
        norm: of the graph that is prepared for ours.
        has_edge_rows: whether both take rows of edges, as wide as those of nodes.
        takes_types: whether PyG's takes the types of edges, too.
        prepare: PyG's layer on a graph whose norm is computed in advance; `None` where it has nothing to prepare.
        oracle: our function made of PyG's layer, where that computes another one.
    """

    name: str
    partner: str
    make: Callable[[int], Layers]
    norm: str = "none"
    has_edge_rows: bool = False
    takes_types: bool = False
    prepare: Callable[[Any, SplitGraph, torch.dtype], Call] | None = None
    oracle: Callable[[Any, Tensor, Tensor], Tensor] | None = None

    def layers(self, channels: int, device: torch.device, dtype: torch.dtype) -> Layers:
        """Both layers with the weights of PyG's, drawn on the CPU: the same on every device and in every dtype."""
        torch.manual_seed(0)
        layers = self.make(channels)
        with torch.no_grad():
            for each in layers.same:
                each.ours.copy_(each.to_ours(each.theirs))
        layers.ours.to(device, dtype)  # in place: the parameters stay the same objects
        layers.theirs.to(device, dtype)
        return layers

    def calls(self, layers: Layers, graph: SplitGraph, dtype: torch.dtype) -> dict[str, Call]:
        """All forms of both layers on a graph by name; without ``"PyG, prepared"`` where it has nothing to prepare."""
        ours, theirs, edges, types = layers.ours, layers.theirs, graph.edge_index, graph.edge_type
        adj = graph.adj(self.norm, dtype)

        def raw(layer: torch.nn.Module, *given: Tensor | RelationalAdj) -> Call:
            return lambda x, rows: layer(x, *given) if rows is None else layer(x, *given, edge_attr=rows)

        def first(layer: torch.nn.Module) -> Call:
            # new tensors of the same memory: a graph that the layer has not seen
            return lambda x, rows: raw(layer, edges.view_as(edges), types.view_as(types))(x, rows)

        found = {
            "ours, first": first(ours),
            "ours, raw": raw(ours, edges, types),
            "PyG, raw": raw(theirs, edges, types) if self.takes_types else raw(theirs, edges),
            "ours, prepared": raw(ours, adj),
        }
        return found if self.prepare is None else {**found, "PyG, prepared": self.prepare(theirs, graph, dtype)}


@dataclass
class Inputs:
    """Leaves of a pass and the gradient of its output; the same numbers in every dtype."""

    x: Tensor
    edge_rows: Tensor | None
    grad: Tensor

    @classmethod
    def draw(cls, pair: Pair, graph: SplitGraph, channels: int, device: torch.device, dtype: torch.dtype) -> Inputs:
        # not the generator of the device: a capture that failed leaves that one unable to draw
        generator = torch.Generator(device).manual_seed(1)

        def rows(count: int) -> Tensor:
            return torch.randn(count, channels, generator=generator, device=device).to(dtype)

        x, grad = rows(graph.num_nodes).requires_grad_(), rows(graph.num_nodes)
        edges = rows(graph.edge_index.size(1)).requires_grad_() if pair.has_edge_rows else None
        return cls(x, edges, grad)

    def run(self, call: Call, parameters: Sequence[Tensor]) -> Callable[[], Grads]:
        """Forward and backward: the output, the gradients of the inputs and those of parameters."""
        leaves = [self.x, *([] if self.edge_rows is None else [self.edge_rows]), *parameters]

        def run() -> Grads:
            out = call(self.x, self.edge_rows)
            return out, *torch.autograd.grad(out, leaves, self.grad, allow_unused=True)

        return run


def check_in_double(pair: Pair, graph: SplitGraph, channels: int, device: torch.device) -> list[Tensor]:
    """Compares all forms of both layers in float64: outputs, gradients of inputs and of the weights they share.

    Returns the output and the gradients of the inputs.
    """
    layers = pair.layers(channels, device, torch.float64)
    inputs = Inputs.draw(pair, graph, channels, device, torch.float64)
    calls, same, oracle = pair.calls(layers, graph, torch.float64), layers.same, pair.oracle

    def run(name: str) -> list[Tensor]:
        if "ours" in name:
            return list(inputs.run(calls[name], [each.ours for each in same])())
        call = calls[name] if oracle is None else lambda x, _: oracle(layers.theirs, x, graph.edge_index)
        found = inputs.run(call, [each.theirs for each in same])()
        few = len(found) - len(same)
        grads = [each.to_ours(grad) for each, grad in zip(same, found[few:], strict=True)]
        return [*found[:few], *grads]

    expected = [tensor.detach() for tensor in run("PyG, raw")]
    for name in calls:
        if name != "PyG, raw":
            compare(run(name), expected, 1e-9, 1e-9, f"{pair.name}: {name} in float64")
    return expected[: len(expected) - len(same)]


def compare(found: Sequence[Tensor], expected: Sequence[Tensor], limit: float, grad_limit: float, who: str) -> None:
    """Ends the program unless an output and its gradients agree to relative errors.

    In float32 rounding turns a few maxima and ReLUs the other way, which moves gradients more than outputs.
    """
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        gap = float((one.detach().to(other.dtype) - other).norm() / other.norm().clamp(min=1e-30))
        what, most = (f"gradient {number}", grad_limit) if number else ("its output", limit)
        if not gap < most:
            raise SystemExit(f"{who}: {what} must agree with PyG's to {most}, got a relative error of {gap:.2g}")


def _gcn(channels: int) -> Layers:
    ours, theirs = MRSGCNConv(channels, channels), GCNConv(channels, channels, add_self_loops=False)
    torch.nn.init.normal_(theirs.bias)
    return Layers(ours, theirs, [Same(ours.lin.common, theirs.lin.weight, True), Same(ours.bias, theirs.bias)])


def _gcn_prepared(theirs: GCNConv, graph: SplitGraph, dtype: torch.dtype) -> Call:
    plain = copy.copy(theirs)  # with the same parameters
    plain.normalize = False
    _, weight = gcn_norm(graph.edge_index, None, graph.num_nodes, add_self_loops=False, dtype=dtype)
    return lambda x, _: plain(x, graph.edge_index, weight)


def _sage(channels: int) -> Layers:
    ours, theirs = MRSSAGEConv(channels, channels), SAGEConv(channels, channels)
    return Layers(ours, theirs, [*_same_sage(ours, theirs), Same(ours.lin_root.weight, theirs.lin_r.weight)])


def _same_sage(ours: MRSSAGEConv, theirs: SAGEConv) -> list[Same]:
    return [Same(ours.lin.common, theirs.lin_l.weight, True), Same(ours.bias, theirs.lin_l.bias)]


def _dir_sage(channels: int) -> Layers:
    ours = DirConv(lambda: MRSSAGEConv(channels, channels, root_weight=False), root_weight=(channels, channels))
    theirs = DirGNNConv(SAGEConv(channels, channels))
    torch.nn.init.zeros_(theirs.lin.bias)  # ours has biases in its convolutions only
    same = [
        *_same_sage(ours.conv_in, theirs.conv_in),
        *_same_sage(ours.conv_out, theirs.conv_out),
        Same(ours.lin_root.weight, theirs.lin.weight),
    ]
    return Layers(ours, theirs, same)


def _rgcn(channels: int) -> Layers:
    ours = MRSSAGEConv(channels, channels, aggr="sum", start="independent", num_relations=RELATIONS)
    theirs = RGCNConv(channels, channels, RELATIONS, aggr="add")
    same = [
        Same(ours.lin.weight, theirs.weight),
        Same(ours.lin_root.weight, theirs.root, True),
        Same(ours.bias, theirs.bias),
    ]
    return Layers(ours, theirs, same)


def _mlp(channels: int) -> torch.nn.Sequential:
    linear = torch.nn.Linear
    return torch.nn.Sequential(linear(channels, channels), torch.nn.ReLU(), linear(channels, channels))


def _gin(channels: int) -> Layers:
    ours, theirs = MRSGINConv(_mlp(channels)), GINConv(_mlp(channels))
    return Layers(
        ours, theirs, [Same(*both) for both in zip(ours.nn.parameters(), theirs.nn.parameters(), strict=True)]
    )


def _gine(channels: int) -> Layers:
    ours, theirs = MRSGINEConv(channels, channels, edge_dim=channels), GINEConv(_mlp(channels))
    first, _, last = theirs.nn
    same = [
        Same(ours.lin.common, first.weight, True),
        Same(ours.bias, first.bias),
        Same(ours.lin_out.weight, last.weight),
        Same(ours.lin_out.bias, last.bias),
    ]
    return Layers(ours, theirs, same)


class _LinearGINE(torch.nn.Module):
    """The convolution of GCN+: `GINEConv` without the node itself and without a network, behind a linear map."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(channels, channels, bias=False)
        self.conv = GINEConv(torch.nn.Identity(), eps=-1.0)
        self.bias = torch.nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        return self.conv(self.lin(x), edge_index, edge_attr) + self.bias


def _gcne(channels: int) -> Layers:
    ours, theirs = MRSGCNEConv(channels, channels, edge_dim=channels), _LinearGINE(channels)
    return Layers(ours, theirs, [Same(ours.lin.common, theirs.lin.weight, True), Same(ours.bias, theirs.bias)])


def _gat(channels: int) -> Layers:
    ours, theirs = MRSGATConv(channels, channels), GATConv(channels, channels, add_self_loops=False)
    same = [Same(getattr(ours, name), getattr(theirs, name)) for name in ("att_src", "att_dst", "bias")]
    return Layers(ours, theirs, [Same(ours.lin.common, theirs.lin.weight, True), *same])


def _gated(channels: int) -> Layers:
    ours, theirs = MRSGatedGCNConv(channels, channels, batch_norm=False), ResGatedGraphConv(channels, channels)
    value, query = ours.lin_message, ours.lin_gate_src
    same = [
        Same(value.lin.common, theirs.lin_value.weight, True),
        Same(value.bias.common, theirs.lin_value.bias),
        Same(query.lin.weight, theirs.lin_query.weight, True),
        Same(query.bias.weight, theirs.lin_query.bias),
        Same(ours.lin_gate_dst.weight, theirs.lin_key.weight),
        Same(ours.lin_gate_dst.bias, theirs.lin_key.bias),
        Same(ours.lin_root.weight, theirs.lin_skip.weight),
        Same(ours.lin_root.bias, theirs.bias),
    ]
    return Layers(ours, theirs, same)


def _normalised_gates(theirs: ResGatedGraphConv, x: Tensor, edge_index: Tensor) -> Tensor:
    """GatedGCN from PyG's layer, which lacks the division by the sum of gates."""
    key, query, value = theirs.lin_key(x), theirs.lin_query(x), theirs.lin_value(x)

    def sums(rows: Tensor) -> Tensor:
        return theirs.propagate(edge_index, k=key, q=query, v=rows, edge_attr=None)

    return theirs.lin_skip(x) + theirs.bias + sums(value) / (sums(torch.ones_like(value)) + 1e-6)


class _EdgeMessage(torch.nn.Module):
    """The message of `EdgeConv`: a linear map of the receiver and the difference."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(2 * channels, channels)

    def forward(self, x_i: Tensor, x_j: Tensor) -> Tensor:
        return self.lin(torch.cat([x_i, x_j - x_i], dim=-1))


def _edge(channels: int) -> Layers:
    theirs = EdgeConv(torch.nn.Linear(2 * channels, channels))
    ours = MRSConv(lambda: _EdgeMessage(channels), aggr="max")
    lin = ours.messages.each[0].lin
    return Layers(ours, theirs, [Same(lin.weight, theirs.nn.weight), Same(lin.bias, theirs.nn.bias)])


PAIRS = (
    Pair("MRSGCNConv", "GCNConv", _gcn, norm="sym", prepare=_gcn_prepared),
    Pair("MRSGATConv", "GATConv", _gat),
    Pair("MRSGatedGCNConv", "ResGatedGraphConv", _gated, oracle=_normalised_gates),
    Pair("MRSSAGEConv", "SAGEConv", _sage, norm="mean"),
    Pair("MRSGINConv", "GINConv", _gin),
    Pair("MRSGINEConv", "GINEConv", _gine, has_edge_rows=True),
    Pair("MRSGCNEConv", "Linear, GINEConv", _gcne, has_edge_rows=True),
    Pair("DirConv(MRSSAGEConv)", "DirGNNConv(SAGEConv)", _dir_sage),
    Pair('MRSSAGEConv(aggr="sum")', 'RGCNConv(aggr="add")', _rgcn, takes_types=True),
    Pair('MRSConv(aggr="max")', "EdgeConv", _edge),
)
