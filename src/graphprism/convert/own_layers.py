"""Conversion of PyG convolutions that have a counterpart in this package, with weights, options and call signature."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.parametrize import is_parametrized
from torch_geometric.nn import GATConv, GCNConv, GINConv, GINEConv, GraphConv, MessagePassing, SAGEConv
from torch_geometric.utils import degree, to_torch_coo_tensor

from graphprism.convert.current_split import CurrentSplit, SplitEdgeIndex
from graphprism.convert.gine_conv import GINENetworkConv
from graphprism.convert.mrs_model import argument_names, is_edge_index, is_sparse_adj, named_arguments
from graphprism.nn.conv import MRSGATConv, MRSGCNConv, MRSGINConv, MRSSAGEConv
from graphprism.nn.conv.operands import has_hooks
from graphprism.nn.conv.relational_weight import RelationalParameter
from graphprism.nn.conv.self_loops import weight_with_loops
from graphprism.ops import Coefficients, RelationalAdj

# Arguments of the layers of this package besides node features and edges.
_TAKES = {"edge_weight", "edge_attr"}
_COPIED = ("in_channels", "out_channels", "heads", "concat", "aggr", "flow")


class OwnLayer(torch.nn.Module):
    """A layer of this package with the call signature of the PyG convolution that it replaces.

    Args:
        conv: the layer.
        replaced: the convolution.
        current: source of the relations of edges.
    """

    def __init__(self, conv: torch.nn.Module, replaced: MessagePassing, current: CurrentSplit) -> None:
        super().__init__()
        self.conv, self.current = conv, current
        self.is_reversed = replaced.flow == "target_to_source"
        # PyG divides by the number of edges even if weights are given
        self.averages = isinstance(replaced, GraphConv) and replaced.aggr == "mean"
        self.is_mean = getattr(replaced, "aggr", None) == "mean"
        self.arguments = argument_names(replaced.forward)
        for name in _COPIED:
            if hasattr(replaced, name):
                setattr(self, name, getattr(replaced, name))

    @property
    def num_relations(self) -> int:
        """Relations of the layer."""
        return int(self.conv.num_relations)  # type: ignore[arg-type]

    def coefficients(self, adj: RelationalAdj) -> Coefficients:
        """Coefficients of the layer's messages, for `graphprism.certify`."""
        found: Coefficients = self.conv.coefficients(adj)  # type: ignore[operator]
        return found

    def reset_parameters(self) -> None:
        """Draws new weights."""
        self.conv.reset_parameters()  # type: ignore[operator]

    def forward(self, *args: Any, edge_type: Tensor | None = None, **kwargs: Any) -> Any:
        """One layer, with the arguments of the convolution; relations may be given for other edges."""
        named = {**named_arguments(self.arguments, args), **kwargs}
        x, edge_index = named.pop("x"), named.pop("edge_index")
        named.pop("size", None)
        check_edges(edge_index)
        entry = self.current.lookup(edge_index) if edge_type is None else SplitEdgeIndex(edge_index, edge_type)
        options = {name: value for name, value in named.items() if value is not None}
        takes = _TAKES | {"return_attention_weights"} if isinstance(self.conv, MRSGATConv) else _TAKES
        wants_attention = bool(options.get("return_attention_weights"))
        if not options.keys() <= takes:
            came = sorted(options.keys() - takes)
            raise ValueError(f"a converted {type(self.conv).__name__} must get {sorted(takes)} alone, got {came}")
        is_sparse = edge_index.layout != torch.strided
        if is_sparse:
            self._check_sparse(options)
            edge_index, weight = entry.edges()
            if isinstance(self.conv, MRSGCNConv) and self.conv.add_self_loops:
                weight = weight_with_loops(edge_index, weight, self.conv.fill_value, x.dtype)
            if weight is not None and not isinstance(self.conv, MRSGATConv):  # PyG's attention does not read it
                options["edge_weight"] = weight
        if self.is_reversed:
            edge_index = edge_index.flip(0)
        # a tuple: torch 2.6 cannot compile `isinstance` with a union
        if isinstance(x, (tuple, list)):
            x = self._pair(tuple(x))
        if (self.averages or (is_sparse and self.is_mean)) and "edge_weight" in options:
            rows = x.size(-2) if isinstance(x, Tensor) else x[1].size(-2)
            share = degree(edge_index[1], rows, options["edge_weight"].dtype).clamp(min=1)
            options["edge_weight"] = options["edge_weight"] / share[edge_index[1]]
        adj = None if self.is_reversed else self._prepared(entry, x, options.get("edge_weight"))
        if adj is not None:
            options.pop("edge_weight", None)
            out = self.conv(x, adj, **options)
        else:
            out = self.conv(x, edge_index, entry.edge_type, **options)
        return self._with_attention(out[0], out[1], is_sparse) if wants_attention else out

    def _check_sparse(self, options: dict[str, Any]) -> None:
        if self.is_reversed or "edge_weight" in options or "edge_attr" in options:
            came = "target_to_source" if self.is_reversed else sorted(options.keys() & _TAKES)
            raise ValueError(
                f'a sparse `edge_index` must come with flow "source_to_target" and without weights, got {came}'
            )

    def _with_attention(self, out: Tensor, attention: tuple[Tensor, Tensor], is_sparse: bool) -> Any:
        """Output and attention as PyG's layer returns them: the input edges, and ``alpha`` in their order."""
        edges, alpha = attention
        if is_sparse:
            adj_t = to_torch_coo_tensor(edges.flip(0), alpha, size=out.size(0))
            return out, (adj_t, adj_t.values())
        return out, (edges.flip(0) if self.is_reversed else edges, alpha)

    def _prepared(self, entry: SplitEdgeIndex, x: Any, edge_weight: Tensor | None) -> RelationalAdj | None:
        """The prepared graph, if there is one that the layer can use without sorting again."""
        ends = (x, x) if isinstance(x, Tensor) else x
        adj = None if torch.compiler.is_compiling() else entry.adj
        if adj is None or adj.size != tuple(end.size(-2) for end in ends):
            return None
        if edge_weight is None:
            return adj
        return None if getattr(self.conv, "add_self_loops", False) else adj.with_weight(edge_weight)

    def _pair(self, x: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.is_reversed or x[1] is None:
            came = "None for receivers" if x[1] is None else "target_to_source"
            raise ValueError(
                f'a converted convolution must get rows of both ends and flow "source_to_target", got {came}'
            )
        return x


def check_edges(edge_index: object) -> None:
    """Raises unless edges are a tensor (2, E) or a sparse torch tensor."""
    if not is_edge_index(edge_index) and not is_sparse_adj(edge_index):
        raise TypeError(
            "`edge_index` must be an integer tensor (2, E) or a sparse tensor of torch in a converted model, got "
            f"{type(edge_index).__name__}"
        )


def own_layer(
    conv: MessagePassing, num_relations: int, start: str, decay: float, deviation: str
) -> torch.nn.Module | None:
    """The layer of this package with the weights and options of ``conv``; None if there is no counterpart."""
    make = _MAKERS.get(type(conv))
    # layers of this package have nodes in the last dimension but one, as `GATConv` has, which counts before its heads
    if make is None or conv.node_dim != (0 if type(conv) is GATConv else -2):
        return None
    if conv._decomposed_layers != 1 or any(map(is_parametrized, conv.modules())) or has_any_hooks(conv):
        return None
    options = {"num_relations": num_relations, "start": start, "decay": decay, "deviation": deviation}
    made = make(conv, options)
    return None if made is None else made.train(conv.training)


def has_any_hooks(conv: MessagePassing) -> bool:
    """Whether the convolution or one of its parts has hooks, which its counterpart would not call."""
    own = (hooks for name, hooks in vars(conv).items() if name.endswith(("_forward_hooks", "_forward_pre_hooks")))
    return any(own) or any(map(has_hooks, conv.modules()))


def _gcn(conv: Any, options: dict[str, Any]) -> torch.nn.Module | None:
    if conv.aggr not in ("add", "sum"):
        return None
    weight = conv.lin.weight
    layer = MRSGCNConv(
        weight.size(1),
        weight.size(0),
        conv.improved,
        conv.cached,
        conv.add_self_loops,
        conv.normalize,
        conv.bias is not None,
        **options,
    )
    return _filled(layer, weight, {"lin": weight, "bias": conv.bias})


def _sage(conv: Any, options: dict[str, Any]) -> torch.nn.Module | None:
    if conv.aggr not in ("mean", "add", "sum"):
        return None
    weight, root = conv.lin_l.weight, conv.lin_r.weight if conv.root_weight else None
    layer = MRSSAGEConv(
        (weight.size(1), weight.size(1) if root is None else root.size(1)),
        weight.size(0),
        conv.aggr,
        conv.normalize,
        conv.root_weight,
        conv.project,
        conv.lin_l.bias is not None,
        **options,
    )
    values = {"lin": weight, "bias": conv.lin_l.bias, "lin_root.weight": root}
    if conv.project:
        values.update({"project.weight": conv.lin.weight, "project.bias": conv.lin.bias})
    return _filled(layer, weight, values)


def _graph(conv: Any, options: dict[str, Any]) -> torch.nn.Module | None:
    if conv.aggr not in ("mean", "add", "sum"):
        return None
    weight, root = conv.lin_rel.weight, conv.lin_root.weight
    bias = conv.lin_rel.bias
    layer = MRSSAGEConv((weight.size(1), root.size(1)), weight.size(0), conv.aggr, bias=bias is not None, **options)
    return _filled(layer, weight, {"lin": weight, "bias": bias, "lin_root.weight": root})


def _gat(conv: Any, options: dict[str, Any]) -> torch.nn.Module | None:
    if conv.aggr not in ("add", "sum"):
        return None
    has_filled_loops = conv.add_self_loops and conv.lin_edge is not None and isinstance(conv.fill_value, str)
    if has_filled_loops and conv.flow == "target_to_source":
        return None  # PyG computes the features of a loop from the edges to its node in both flows
    pair = conv.lin is None
    weight = (conv.lin_src if pair else conv.lin).weight
    layer = MRSGATConv(
        (weight.size(1), conv.lin_dst.weight.size(1)) if pair else weight.size(1),
        conv.out_channels,
        conv.heads,
        conv.concat,
        conv.negative_slope,
        conv.dropout,
        conv.add_self_loops,
        conv.edge_dim,
        conv.fill_value,
        conv.bias is not None,
        conv.res is not None,
        **options,
    )
    values = {"lin": weight, "lin_dst": conv.lin_dst.weight if pair else None, "bias": conv.bias}
    values.update({name: getattr(conv, name) for name in ("att_src", "att_dst", "att_edge")})
    for name in ("lin_edge", "res"):
        part = getattr(conv, name)
        values[f"{name}.weight"] = None if part is None else part.weight
    return _filled(layer, weight, values)


def _gine(conv: Any, options: dict[str, Any]) -> torch.nn.Module | None:
    # with a map of edge features messages have parameters of their own, which get a copy for each relation
    return _gin(conv, options, GINENetworkConv) if conv.lin is None else None


def _gin(conv: Any, options: dict[str, Any], make: type[MRSGINConv] = MRSGINConv) -> torch.nn.Module | None:
    if conv.aggr not in ("add", "sum"):
        return None
    train_eps = isinstance(conv.eps, torch.nn.Parameter)
    shared = options["start"] == "shared"
    try:
        layer = make(conv.nn if shared else _fresh(conv.nn), conv.initial_eps, train_eps, **options)
    except ValueError:  # its network does not begin with a linear map
        return None
    first = next(conv.nn.parameters())
    layer.to(first.device, first.dtype)
    with torch.no_grad():
        layer.eps.copy_(conv.eps.expand_as(layer.eps))
    if train_eps:
        layer.eps.requires_grad_(conv.eps.requires_grad)
    return layer


def _fresh(network: torch.nn.Module) -> Callable[[], torch.nn.Module]:
    def make() -> torch.nn.Module:
        new = copy.deepcopy(network)
        for module in new.modules():
            getattr(module, "reset_parameters", lambda: None)()
        return new

    return make


_MAKERS: dict[type, Callable[[Any, dict[str, Any]], torch.nn.Module | None]] = {
    GCNConv: _gcn,
    SAGEConv: _sage,
    GraphConv: _graph,
    GATConv: _gat,
    GINConv: _gin,
    GINEConv: _gine,
}


def _filled(layer: torch.nn.Module, like: Tensor, values: dict[str, Tensor | None]) -> torch.nn.Module:
    """``layer`` with the given parameter values; with an independent start, relations keep the weights drawn."""
    layer.to(like.device, like.dtype)
    for name, value in values.items():
        if value is None:
            continue
        owner, _, last = name.rpartition(".")
        target: Any = getattr(layer.get_submodule(owner), last)
        if isinstance(target, RelationalParameter):
            if target.start == "shared":
                target.set_(value.detach().t())
            target.requires_grad_(value.requires_grad)
        else:
            with torch.no_grad():
                target.copy_(value)
            target.requires_grad_(value.requires_grad)
    return layer
