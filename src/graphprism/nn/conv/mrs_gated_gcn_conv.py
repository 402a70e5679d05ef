"""MRS-GatedGCN."""

from __future__ import annotations

from typing import Any, TypeGuard

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch_geometric.nn.dense import Linear

from graphprism._checks import check_finite_number, check_flag, check_optional_whole, check_positive
from graphprism.nn.conv.operands import (
    Nodes,
    Prepared,
    batch_norm,
    check_edge_attr,
    check_features,
    check_relations,
    has_hooks,
    has_negative,
    linear,
    pair_of_channels,
    split_nodes,
    to_adj,
)
from graphprism.nn.conv.relational_conv import RelationalConv, graph_by_edge
from graphprism.nn.conv.relational_weight import DECAY, RelationalParameter, RelationalWeight
from graphprism.ops import Coefficients, RelationalAdj, at_receivers, at_senders, entry_sum, relational_transform
from graphprism.ops.batched.batched_linear import batched_linear
from graphprism.ops.batched.gated_mean import padded_gated_mean
from graphprism.ops.batched.padded_adj import PaddedAdj
from graphprism.ops.entries import trusted_index_sum
from graphprism.ops.gated_mean import GateMaps, LinearMap, gated_mean, gated_mean_pays
from graphprism.ops.pair_rows import sender_rows


class MRSGatedGCNConv(RelationalConv):
    r"""Gated graph convolution with one message matrix per relation (MRS-GatedGCN).

    .. math:: \mathbf{x}'_i = \mathbf{A} \mathbf{x}_i + \frac{\sum_{e = (j, i)} w_e \, \eta_e \odot \mathbf{B}_{r(e)}
        \mathbf{x}_j}{\sum_{e = (j, i)} w_e \, \eta_e + \epsilon}, \qquad
        \mathbf{e}'_e = \mathbf{D} \mathbf{x}_i + \mathbf{E} \mathbf{x}_j + \mathbf{C} \mathbf{e}_e, \quad
        \eta_e = \sigma(\mathbf{e}'_e)

    All maps have a bias. With ``batch_norm`` the layer ends in batch normalisation of nodes and of edges, as published;
    nonlinearity and residual are left to the model. With soft types the maps of an edge are weighted by its scores.

    Args:
        in_channels: size of an input row, a pair (senders, receivers) for a bipartite graph, ``-1`` to take a size from
            the first input.
        out_channels: size of an output row.
        num_relations: number of relations R; one is the plain GatedGCN.
        edge_dim: size of an edge feature; `None` omits :math:`\mathbf{C} \mathbf{e}`.
        gate_per_relation: whether :math:`\mathbf{E}` is one map per relation, too. The paper's formula shares it; its
            parameter counts imply one per relation (nine maps for three relations).
        batch_norm: whether to normalise nodes and edges at the end.
        eps: :math:`\epsilon`.
        start: ``"shared"`` starts as the plain layer, with equal weights in all relations; ``"independent"``, as in the
            paper, draws the weights of each relation. See `RelationalParameter`.
        decay: how strongly a shared start ties the relations to their common weights, 0 for not at all.
        deviation: difference of a relation from the common weights: ``"full"`` is a matrix, ``"diagonal"`` one factor
            per output channel, with few parameters. See `RelationalParameter`.

    Shapes: ``x`` (N, F_in) or a pair, ``edge_index`` (2, E), ``edge_type`` (E,) or (E, R), ``edge_weight`` (E,),
    ``edge_attr`` (E, D) -> (N, F_out), or with ``return_edge_attr=True`` also the new edge features (E, F_out);
    ``edge_index`` may be a `RelationalAdj`.
    """

    edge_norm = "none"

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        *,
        num_relations: int = 3,
        edge_dim: int | None = None,
        gate_per_relation: bool = False,
        batch_norm: bool = True,
        eps: float = 1e-6,
        start: str = "shared",
        decay: float = DECAY,
        deviation: str = "full",
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels, self.num_relations = in_channels, out_channels, num_relations
        self.edge_dim, self.eps = edge_dim, eps
        src, dst = pair_of_channels(in_channels)
        check_positive("out_channels", out_channels)
        check_positive("num_relations", num_relations)
        check_optional_whole("edge_dim", edge_dim)
        check_flag("gate_per_relation", gate_per_relation)
        check_flag("batch_norm", batch_norm)
        check_finite_number("eps", eps, least=0)
        self.lin_root = Linear(dst, out_channels)  # A
        self.lin_message = _RelationalMap(src, out_channels, num_relations, True, start, decay, deviation)  # B
        self.lin_edge = Linear(edge_dim, out_channels) if edge_dim is not None else None  # C
        self.lin_gate_dst = Linear(dst, out_channels)  # D
        gates = num_relations if gate_per_relation else 1
        self.lin_gate_src = _RelationalMap(src, out_channels, gates, gate_per_relation, start, decay, deviation)  # E
        self.norm_node = torch.nn.BatchNorm1d(out_channels) if batch_norm else None
        self.norm_edge = torch.nn.BatchNorm1d(out_channels) if batch_norm else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for module in self.children():
            module.reset_parameters()

    def forward(
        self,
        x: Nodes,
        edge_index: Tensor | Prepared,
        edge_type: Tensor | None = None,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        return_edge_attr: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """One layer; see the class for shapes."""
        adj = to_adj(x, edge_index, edge_type, edge_weight, self.num_relations)
        x_src, x_dst = split_nodes(x)
        check_features(x, self.lin_message.lin, self.lin_root)
        check_edge_attr(edge_attr, self.lin_edge, adj)
        if isinstance(adj, PaddedAdj) and x_src is x_dst and self._is_plain():
            out, edge = self._padded(x_src, adj, edge_attr)
        elif not return_edge_attr and isinstance(adj, RelationalAdj) and self._fuses(adj, edge_attr):
            out, edge = self._fused(x_src, x_dst, adj, edge_attr), x_src[:0]
        else:
            out, edge = self._by_entry(x_src, x_dst, adj, edge_attr)
        out = out if self.norm_node is None else batch_norm(self.norm_node, out, adj.node_mask)
        if not return_edge_attr:
            return out
        if self.norm_edge is not None and edge.size(0) > 0:
            edge = batch_norm(self.norm_edge, edge, adj.entry_mask)
        return out, edge

    def _by_entry(self, x_src: Tensor, x_dst: Tensor, adj: Prepared, edge_attr: Tensor | None) -> tuple[Tensor, Tensor]:
        """Sums and edge features before normalisation, on any graph."""
        edge = self._at_receivers(linear(self.lin_gate_dst, x_dst), adj) + self.lin_gate_src(x_src, adj)  # (E, F)
        if self.lin_edge is not None and edge_attr is not None:
            edge = edge + linear(self.lin_edge, edge_attr)
        gate = edge.sigmoid()
        if adj.edge_weight is not None:
            gate = adj.edge_weight[:, None].to(gate.dtype) * gate
        both = torch.cat([gate * self.lin_message(x_src, adj), gate], dim=1)
        if self.is_by_edge:
            total = self.sum_by_edge((x_src, x_dst), graph_by_edge(x_src, adj), both, weight=None)
        else:
            total = self._sum(both, adj)
        numerator, denominator = total.chunk(2, dim=1)
        out: Tensor = linear(self.lin_root, x_dst) + numerator / (denominator + self.eps)
        return out, edge

    def _padded(self, x: Tensor, adj: PaddedAdj, edge_attr: Tensor | None) -> tuple[Tensor, Tensor]:
        """The same with one product for all maps of nodes, and few kernels for many runs under `torch.vmap`."""
        by_relation = (self.lin_gate_src, self.lin_message)
        matrices = [each.weight.t() for each in (self.lin_root, self.lin_gate_dst)]
        matrices += [each.lin(x).transpose(0, 1).flatten(1) for each in by_relation]
        rows = batched_linear(x, torch.cat(matrices, dim=1).t())
        edges = edge_bias = None
        if self.lin_edge is not None and edge_attr is not None:
            edges, edge_bias = batched_linear(edge_attr, self.lin_edge.weight), self.lin_edge.bias
        root, receiver = self.lin_root.bias, self.lin_gate_dst.bias
        biases = (root, receiver, edge_bias, *(each.bias() for each in by_relation))
        return padded_gated_mean(rows, edges, biases, adj, self.lin_gate_src.lin.num_relations, self.eps)

    def _fused(self, x_src: Tensor, x_dst: Tensor, adj: RelationalAdj, edge_attr: Tensor | None) -> Tensor:
        """The sums alone, without a row in memory for every edge."""
        receivers = LinearMap(self.lin_gate_dst.weight.t(), self.lin_gate_dst.bias)
        maps = GateMaps(receivers, self.lin_gate_src.side_by_side(x_src), self.lin_message.side_by_side(x_src))
        edges = None if self.lin_edge is None or edge_attr is None else self.lin_edge(edge_attr)
        mean = gated_mean((x_src, x_dst), adj, maps, edges, eps=self.eps)
        out: Tensor = self.lin_root(x_dst) + mean
        return out

    def _fuses(self, adj: RelationalAdj, edge_attr: Tensor | None) -> bool:
        """Whether `_fused` is faster, and the maps may be taken apart."""
        if not gated_mean_pays(adj, self.out_channels, edge_attr is not None):
            return False
        return type(self.lin_gate_dst) is Linear and self._is_plain()

    def _is_plain(self) -> bool:
        """Whether the maps may be taken apart: all sizes are known and no one looks at a part of the layer."""
        parts = (self.lin_root, self.lin_gate_dst, self.lin_edge, self.lin_gate_src, self.lin_message)
        inner = (self.lin_gate_src.lin, self.lin_message.lin)
        waits = any(each.is_waiting for each in inner) or is_lazy(self.lin_root.weight)
        watched = self.is_by_edge or any(has_hooks(each) for each in (*parts, *inner) if each is not None)
        return not waits and not watched

    @staticmethod
    def _at_receivers(rows: Tensor, adj: Prepared) -> Tensor:
        # with soft types an edge has several entries, but one gate
        return rows[adj.edge_index[1]] if _is_soft(adj) else at_receivers(rows, adj)

    @staticmethod
    def _sum(rows: Tensor, adj: Prepared) -> Tensor:
        return trusted_index_sum(rows, adj.edge_index[1], adj.size[1]) if _is_soft(adj) else entry_sum(rows, adj)

    def coefficients(self, adj: RelationalAdj) -> Coefficients:
        r"""The coefficients :math:`w \eta / \sum w \eta` for equal gates, for `graphprism.certify`."""
        check_relations(adj, self.num_relations)
        if has_negative(adj.edge_weight):
            return Coefficients(type(self).__name__, unproven="with negative weights its denominators can be zero")
        note = (
            "Its gates depend on the input: the figures assume equal gates, and the conclusions hold for almost every "
            "gate."
        )
        normalized = (
            "It is about the output before batch normalisation, which in training removes the mean over nodes and can "
            "lower the rank by 1, and the number of distinguished pairs."
        )
        return Coefficients(
            type(self).__name__,
            (adj.normalized("mean", torch.float64),),
            root=True,
            channels=self.out_channels,
            is_linear=False,
            notes=(note,) if self.norm_node is None else (note, normalized),
        )

    def extra_repr(self) -> str:
        """Sizes for ``print``."""
        return f"{self.in_channels}, {self.out_channels}, num_relations={self.num_relations}, edge_dim={self.edge_dim}"


class _RelationalMap(torch.nn.Module):
    """A linear map with bias for each relation, applied to the sender of every edge: (N, F_in) -> (E, F_out).

    With soft types the maps are weighted by the scores, unless all relations share one map (``by_score=False``).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_relations: int,
        by_score: bool,
        start: str,
        decay: float,
        deviation: str,
    ) -> None:
        super().__init__()
        self.by_score = by_score
        self.lin = RelationalWeight(
            in_channels, out_channels, num_relations, "kaiming_uniform", start, decay, deviation
        )
        self.bias = RelationalParameter((out_channels,), num_relations, start, decay)
        self._register_load_state_dict_pre_hook(_rename_bias)  # type: ignore[no-untyped-call]
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()
        self._reset_bias()

    def _reset_bias(self) -> None:
        self.bias.draw(max(1, self.lin.in_channels) ** -0.5)

    def side_by_side(self, x: Tensor) -> LinearMap:
        """All relations as one map, F_in -> R * F_out."""
        return LinearMap(self.lin(x).transpose(0, 1).flatten(1), self.bias().flatten())

    def forward(self, x: Tensor, adj: Prepared) -> Tensor:
        was_lazy = self.lin.is_waiting
        weight = self.lin(x)
        if was_lazy:  # the range of the bias depends on the input size, known only now
            self._reset_bias()
        shared, graph = self.lin.num_relations == 1, adj
        if shared:
            h = relational_transform(x, weight) + self.bias()  # (N, 1, F)
        else:
            h, graph = sender_rows(x, adj, weight, self.bias())  # (N, R, F)
        if not _is_soft(adj):
            return at_senders(h[:, 0] if shared else h, graph)
        source, edge = adj.edge_index[0], adj.entry_edge
        if not self.by_score:
            first: Tensor = h[:, 0][source]
            return first
        if graph is adj or edge is None:
            return torch.einsum("er,erf->ef", adj.scores.to(h.dtype), h[source])
        score = adj.scores[edge, adj.relation].to(h.dtype)
        return trusted_index_sum(score[:, None] * at_senders(h, graph), edge, adj.num_edges)


def _rename_bias(state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Version 0.1 had the biases of all relations as one parameter."""
    if f"{prefix}bias" in state:
        state[f"{prefix}bias.weight"] = state.pop(f"{prefix}bias")


def _is_soft(adj: Prepared) -> TypeGuard[RelationalAdj]:
    # only a `RelationalAdj` can be soft
    return adj.is_soft
