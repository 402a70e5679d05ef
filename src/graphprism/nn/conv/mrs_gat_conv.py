"""MRS-GAT."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.dense import Linear
from torch_geometric.nn.inits import glorot, zeros

from graphprism._checks import check_finite_number, check_flag, check_optional_whole, check_positive, check_share
from graphprism.nn.conv.operands import (
    Nodes,
    Prepared,
    check_edge_attr,
    check_features,
    check_relations,
    has_negative,
    pair_of_channels,
    split_nodes,
    to_adj,
    zeros_parameter,
)
from graphprism.nn.conv.relational_conv import RelationalConv, graph_by_edge
from graphprism.nn.conv.relational_weight import DECAY, RelationalWeight
from graphprism.nn.conv.self_loops import check_takes_loops, with_new_loops
from graphprism.ops import (
    Coefficients,
    RelationalAdj,
    at_senders,
    edge_softmax,
    relational_sum,
    relational_transform,
)
from graphprism.ops.attention import attention_fits, relational_attention
from graphprism.ops.batched.attention_sum import padded_attention_sum
from graphprism.ops.batched.padded_adj import PaddedAdj
from graphprism.ops.entries import trusted_index_sum
from graphprism.ops.pair_rows import receiver_products, sender_rows


class MRSGATConv(RelationalConv):
    r"""Graph attention with one weight matrix per relation and one attention over all of them (MRS-GAT).

    .. math:: \mathbf{x}'_i = \mathbf{b} + \sum_{e = (j, i)} \alpha_e \mathbf{W}_{r(e)}^\top \mathbf{x}_j, \qquad
        \alpha_e = \operatorname{softmax}_{e \to i} \operatorname{LeakyReLU} \big(
        \mathbf{a}_s^\top \mathbf{W}_{r(e)}^\top \mathbf{x}_j + \mathbf{a}_t^\top \mathbf{W}_{r(e)}^\top \mathbf{x}_i
        \big)

    for every head. The attention vectors :math:`\mathbf{a}_s, \mathbf{a}_t` are shared by the relations, and the
    softmax runs over all incoming edges, whatever their relation. An edge of weight :math:`w` counts as :math:`w`
    edges. One relation is PyG's ``GATConv(add_self_loops=False)``. As in the paper, and unlike in PyG, no self-loops
    are added by default.

    Args:
        in_channels: size of an input row, a pair (senders, receivers) for a bipartite graph, ``-1`` to take a size from
            the first input.
        out_channels: size of an output row of one head.
        heads: number of heads H.
        concat: whether to concatenate the heads; else they are averaged.
        negative_slope: slope of LeakyReLU.
        dropout: share of attention coefficients dropped in training.
        add_self_loops: whether to replace all self-loops by one of weight 1 at each node, as PyG's layer does. They are
            in the last relation, R - 1 (the ties of `by_order`). A `RelationalAdj` caches the graph with self-loops.
        edge_dim: size of an edge feature that adds :math:`\mathbf{a}_e^\top \mathbf{W}_e^\top \mathbf{e}` to the logit.
        fill_value: edge features of added self-loops, as in PyG's layer: a number, a tensor (D,), or how to reduce
            those of the edges that enter the node (``"mean"``, ``"sum"``, ``"min"``, ``"max"``, ``"mul"``).
        bias: whether to learn :math:`\mathbf{b}`.
        residual: whether to add a linear map of the receiver.
        num_relations: number of relations R.
        start: ``"shared"`` starts as the plain layer, with equal weights in all relations; ``"independent"``, as in the
            paper, draws the weights of each relation. See `RelationalParameter`.
        decay: how strongly a shared start ties the relations to their common weights, 0 for not at all.
        deviation: difference of a relation from the common weights: ``"full"`` is a matrix, ``"diagonal"`` one factor
            per output channel, with few parameters. See `RelationalParameter`.

    Shapes: ``x`` (N, F_in) or a pair, ``edge_index`` (2, E), ``edge_type`` (E,) or (E, R), ``edge_weight`` (E,),
    ``edge_attr`` (E, D) or (E,) -> (N, H * F_out) or (N, F_out); ``edge_index`` may be a `RelationalAdj`. With
    ``return_attention_weights=True`` also ``(edge_index, alpha)``, where ``alpha`` (E, H) is in the order of the edges.
    """

    edge_norm = "none"

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        add_self_loops: bool = False,
        edge_dim: int | None = None,
        fill_value: float | Tensor | str = "mean",
        bias: bool = True,
        residual: bool = False,
        *,
        num_relations: int = 3,
        start: str = "shared",
        decay: float = DECAY,
        deviation: str = "full",
    ) -> None:
        super().__init__()
        check_positive("heads", heads)
        check_positive("out_channels", out_channels)
        check_share("dropout", dropout)
        check_flag("concat", concat)
        check_flag("add_self_loops", add_self_loops)
        check_flag("bias", bias)
        check_flag("residual", residual)
        check_finite_number("negative_slope", negative_slope)
        check_optional_whole("edge_dim", edge_dim)
        self.in_channels, self.out_channels, self.num_relations = in_channels, out_channels, num_relations
        self.heads, self.concat, self.negative_slope, self.dropout = heads, concat, negative_slope, dropout
        self.edge_dim, self.add_self_loops, self.fill_value = edge_dim, add_self_loops, fill_value
        pair = isinstance(in_channels, tuple)
        src, dst = pair_of_channels(in_channels)
        self.lin = RelationalWeight(src, heads * out_channels, num_relations, "glorot", start, decay, deviation)
        # a bipartite graph needs a second map for the receivers; otherwise both ends share one, as in PyG
        self.lin_dst = (
            RelationalWeight(dst, heads * out_channels, num_relations, "glorot", start, decay, deviation)
            if pair
            else None
        )
        self.att_src = torch.nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = torch.nn.Parameter(torch.empty(1, heads, out_channels))
        self.lin_edge = (
            Linear(edge_dim, heads * out_channels, bias=False, weight_initializer="glorot") if edge_dim else None
        )
        self.att_edge = torch.nn.Parameter(torch.empty(1, heads, out_channels)) if edge_dim else None
        total = heads * out_channels if concat else out_channels
        self.res = Linear(dst, total, bias=False, weight_initializer="glorot") if residual else None
        self.bias = zeros_parameter(total, bias)
        self._register_load_state_dict_pre_hook(_from_pyg)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights, as PyG does for its GAT."""
        for module in (self.lin, self.lin_dst, self.lin_edge, self.res):
            if module is not None:
                module.reset_parameters()
        for attention in (self.att_src, self.att_dst, self.att_edge):
            glorot(attention)
        zeros(self.bias)

    def forward(
        self,
        x: Nodes,
        edge_index: Tensor | Prepared,
        edge_type: Tensor | None = None,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        return_attention_weights: bool | None = None,
    ) -> Tensor | tuple[Tensor, tuple[Tensor, Tensor]]:
        """One layer; see the class for shapes."""
        check_takes_loops(edge_index, self.add_self_loops)
        if isinstance(edge_attr, Tensor) and edge_attr.dim() == 1:  # one number for each edge, as PyG's layer takes it
            edge_attr = edge_attr.view(-1, 1)
        adj = to_adj(x, edge_index, edge_type, edge_weight, self.num_relations)
        x_src, x_dst = split_nodes(x)
        check_features(x, self.lin, self.lin_dst, sparse=True)
        if self.lin_dst is None and x_dst is not x_src:
            raise ValueError("`in_channels` must be a pair for a layer that is called with a pair, got one number")
        if self.add_self_loops:
            check_edge_attr(edge_attr, self.lin_edge, adj)
            adj, edge_attr = with_new_loops(adj, edge_attr, self.fill_value)
        if self._sums_alone(return_attention_weights) and attention_fits(x_src, adj, self.heads):
            out = self._fused(x_src, adj, self._edge_logit(edge_attr, adj))
            return out if self.res is None else out + self.res(x_dst)
        weight = self.lin(x_src)
        h_src, graph = sender_rows(x_src, adj, weight)
        h_src = h_src.unflatten(-1, (self.heads, self.out_channels))  # (N, R, H, F)
        if isinstance(adj, PaddedAdj) and self._sums_alone(return_attention_weights) and not self._drops:
            out = self._padded(h_src, adj, self._edge_logit(edge_attr, adj))
            return out if self.res is None else out + self.res(x_dst)
        if graph is adj:
            logit = at_senders(relational_transform(x_src, self._attend(weight, self.att_src)), adj)  # (K, H)
        else:
            logit = at_senders((h_src * self.att_src).sum(dim=-1), graph)
        weight_dst = weight if self.lin_dst is None else self.lin_dst(x_dst)
        logit = logit + receiver_products(x_dst, adj, self._attend(weight_dst, self.att_dst))
        logit = logit + self._edge_logit(edge_attr, adj)
        alpha = edge_softmax(torch.nn.functional.leaky_relu(logit, self.negative_slope), adj)
        alpha = torch.nn.functional.dropout(alpha, self.dropout, self.training)
        if self.is_by_edge:
            edges = graph_by_edge(x_src, adj)
            rows, share = self._edge_rows(at_senders(h_src, graph), alpha, edges)
            out = self.sum_by_edge((x_src, x_dst), edges, rows, alpha=share)
        else:
            out = relational_sum(h_src, graph, alpha)  # (N, H, F)
        out = out.flatten(1) if self.concat else out.mean(dim=1)
        if self.res is not None:
            out = out + self.res(x_dst)
        out = out if self.bias is None else out + self.bias
        if not return_attention_weights:
            return out
        edges = graph_by_edge(x_src, adj)
        return out, (edges.edge_index, self._edge_sum(alpha, edges))

    def _padded(self, h: Tensor, adj: PaddedAdj, edge_logit: Tensor | float) -> Tensor:
        """The sums of all heads, (N, H F), or their mean, with the bias; few kernels for runs under `torch.vmap`."""
        more = edge_logit if isinstance(edge_logit, Tensor) else None
        vectors = self.att_src[0], self.att_dst[0]
        return padded_attention_sum(h, *vectors, more, self.bias, adj, self.negative_slope, mean=not self.concat)

    def _fused(self, x: Tensor, adj: Prepared, edge_logit: Tensor | float) -> Tensor:
        """The sums of all heads, (N, H F), or their mean, with the bias; one node of autograd up to the mean."""
        assert isinstance(adj, RelationalAdj)  # `attention_fits` says so
        more = edge_logit if isinstance(edge_logit, Tensor) else None
        weight, kept = self.lin.mixture(), None
        if self._drops:
            kept = torch.nn.functional.dropout(x.new_ones(adj.incoming.col.numel(), self.heads), self.dropout)
        out = relational_attention(
            x,
            adj,
            self.lin(x) if weight is None else weight,
            self.att_src,
            self.att_dst,
            more,
            self.bias if self.concat else None,
            kept,
            negative_slope=self.negative_slope,
        )
        if self.concat:
            return out
        out = out.view(-1, self.heads, self.out_channels).mean(dim=1)
        return out if self.bias is None else out + self.bias

    def _sums_alone(self, return_attention_weights: bool | None) -> bool:
        """Whether no one needs the coefficients of attention or the messages themselves."""
        return self.lin_dst is None and not self.is_by_edge and not return_attention_weights

    @property
    def _drops(self) -> bool:
        return self.training and self.dropout > 0

    def message(self, rows: Tensor, alpha: Tensor) -> Tensor:  # type: ignore[override]  # PyG finds arguments by name
        """The message of every edge, (E, H, F)."""
        return alpha[:, :, None] * rows

    def _edge_rows(self, rows: Tensor, alpha: Tensor, adj: RelationalAdj) -> tuple[Tensor, Tensor]:
        """Message (E, H, F) and attention (E, H) of every edge, summed over its entries."""
        if adj.entry_edge is None:
            return rows, alpha
        weight = self._edge_sum(alpha, adj)
        total = self._edge_sum(alpha[:, :, None] * rows, adj)
        return total / torch.where(weight == 0, 1, weight)[:, :, None], weight

    @staticmethod
    def _edge_sum(rows: Tensor, adj: RelationalAdj) -> Tensor:
        """Rows of entries summed to rows of edges, in the order of the input."""
        return rows if adj.entry_edge is None else trusted_index_sum(rows, adj.entry_edge, adj.num_edges)

    def _attend(self, weight: Tensor, attention: Tensor) -> Tensor:
        r"""Computes :math:`\mathbf{W}_r \mathbf{a}`, (R, F_in, H): its product with all rows is cheaper than W x."""
        heads: Tensor = weight.unflatten(-1, (self.heads, self.out_channels))
        # no `einsum`: under autocast its result would not have the dtype of the rows
        return (heads * attention).sum(dim=-1)

    def _edge_logit(self, edge_attr: Tensor | None, adj: Prepared) -> Tensor | float:
        check_edge_attr(edge_attr, self.lin_edge, adj)
        if edge_attr is None or self.lin_edge is None or self.att_edge is None:
            return 0.0
        logit: Tensor = (self.lin_edge(edge_attr).view(-1, self.heads, self.out_channels) * self.att_edge).sum(dim=-1)
        return logit if adj.entry_edge is None else logit[adj.entry_edge]

    def coefficients(self, adj: RelationalAdj) -> Coefficients:
        r"""The coefficients :math:`\alpha` on a graph for equal logits, for `graphprism.certify`."""
        check_relations(adj, self.num_relations)
        if self.add_self_loops:
            adj, _ = with_new_loops(adj, None, self.fill_value)
        if has_negative(adj.weight):
            return Coefficients(type(self).__name__, unproven="it takes no negative weights, and this graph has some")
        ones = torch.ones(adj.num_edges, dtype=torch.float64, device=adj.device)
        entry, edge = (ones if part is None else part.detach().double() for part in (adj.weight, adj.edge_weight))
        total = ones.new_zeros(adj.size[1]).index_add(0, adj.dst, entry)
        # if a node's total is zero, so are all its edge weights
        equal = adj.with_weight(edge / torch.where(total > 0, total, 1)[adj.edge_index[1]])
        note = (
            "Its attention depends on the input: the figures assume equal attention, and the conclusions hold for "
            "almost every attention, without dropout."
        )
        channels = self.out_channels * (self.heads if self.concat else 1)
        return Coefficients(
            type(self).__name__,
            (equal,),
            root=self.res is not None,
            channels=channels,
            is_linear=False,
            notes=(note,),
        )

    def extra_repr(self) -> str:
        """Sizes for ``print``."""
        return f"{self.in_channels}, {self.out_channels}, num_relations={self.num_relations}, heads={self.heads}"


def _from_pyg(state: dict[str, Any], prefix: str, *_: Any) -> None:
    """PyG's ``GATConv`` has another name for the map of senders if receivers have their own."""
    if (weight := state.pop(f"{prefix}lin_src.weight", None)) is not None:
        state[f"{prefix}lin.weight"] = weight
