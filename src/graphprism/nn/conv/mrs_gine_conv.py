"""MRS-GINE: graph isomorphism layer with edge features."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.dense import Linear

from graphprism._checks import check_finite_number, check_flag, check_optional_whole, check_positive
from graphprism.nn.conv.mrs_gcne_conv import UNPROVEN, edge_rows
from graphprism.nn.conv.operands import (
    Nodes,
    Prepared,
    check_features,
    check_relations,
    linear,
    split_nodes,
    to_adj,
)
from graphprism.nn.conv.relational_conv import RelationalConv, graph_by_edge
from graphprism.nn.conv.relational_weight import DECAY, RelationalWeight
from graphprism.ops import Coefficients, RelationalAdj
from graphprism.ops.batched.batched_linear import batched_linear
from graphprism.ops.relu_sum import relu_sum


class MRSGINEConv(RelationalConv):
    r"""Graph isomorphism layer with edge features and one first matrix per relation (MRS-GINE).

    .. math:: \mathbf{x}'_i = \mathbf{U}^\top \max \Big( 0, \, \mathbf{b} + (1 + \epsilon) \, \bar{\mathbf{W}}^\top
        \mathbf{x}_i + \sum_{r} \mathbf{W}_r^\top \sum_{e = (j, i),\, r(e) = r} w_e \max(0, \mathbf{x}_j + \mathbf{a}_e)
        \Big) + \mathbf{c}

    where :math:`\bar{\mathbf{W}}` is the mean of all :math:`\mathbf{W}_r`, :math:`\mathbf{a}_e` are the features of the
    edge and :math:`w_e` is ``edge_weight``, else one. One relation is PyG's ``GINEConv`` with a network of two maps.

    Args:
        in_channels: size of an input row.
        out_channels: size of an output row, and of the hidden one.
        num_relations: number of relations R.
        edge_dim: size of an edge feature; other sizes than ``in_channels`` go through a linear map first. `None` for no
            edge features.
        eps: initial value of :math:`\epsilon`.
        train_eps: whether to learn it.
        start: ``"shared"`` starts as the plain layer, all relations with equal weights; ``"independent"`` draws the
            weights of each relation. See `RelationalParameter`.
        decay: how strongly a shared start ties the relations to their common weights, 0 for not at all.
        deviation: difference of a relation from the common weights: ``"full"`` is a matrix, ``"diagonal"`` one factor
            per output channel, with few parameters. See `RelationalParameter`.

    Shapes: ``x`` (N, F_in) or a pair (senders, receivers), ``edge_index`` (2, E), ``edge_type`` (E,) or (E, R),
    ``edge_weight`` (E,), ``edge_attr`` (E, D) -> (N, F_out); ``edge_index`` may be a `RelationalAdj`.
    """

    edge_norm = "none"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        num_relations: int = 3,
        edge_dim: int | None = None,
        eps: float = 0.0,
        train_eps: bool = False,
        start: str = "shared",
        decay: float = DECAY,
        deviation: str = "full",
    ) -> None:
        super().__init__()
        check_positive("in_channels", in_channels)
        check_positive("out_channels", out_channels)
        check_optional_whole("edge_dim", edge_dim)
        check_finite_number("eps", eps)
        check_flag("train_eps", train_eps)
        self.in_channels, self.out_channels, self.num_relations = in_channels, out_channels, num_relations
        self.edge_dim, self.initial_eps = edge_dim, eps
        self.lin = RelationalWeight(
            in_channels, out_channels, num_relations, "kaiming_uniform", start, decay, deviation
        )
        self.bias = torch.nn.Parameter(torch.empty(out_channels))
        self.lin_out = Linear(out_channels, out_channels)
        self.lin_edge = Linear(edge_dim, in_channels) if edge_dim not in (None, in_channels) else None
        if train_eps:
            self.eps: Tensor = torch.nn.Parameter(torch.full((1,), float(eps)))
        else:
            self.register_buffer("eps", torch.full((1,), float(eps)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for module in (self.lin, self.lin_out, self.lin_edge):
            if module is not None:
                module.reset_parameters()
        torch.nn.init.uniform_(self.bias, -(self.in_channels**-0.5), self.in_channels**-0.5)  # as that of a linear map
        torch.nn.init.constant_(self.eps, self.initial_eps)

    def forward(
        self,
        x: Nodes,
        edge_index: Tensor | Prepared,
        edge_type: Tensor | None = None,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """One layer; see the class for shapes."""
        adj = to_adj(x, edge_index, edge_type, edge_weight, self.num_relations)
        x_src, x_dst = split_nodes(x)
        check_features(x, self.lin, self.lin)
        edges = edge_rows(edge_attr, self.edge_dim, self.lin_edge, adj)
        received = received_rows(self, x_src, x_dst, adj, edges)  # (N, R, F_in)
        # mean(W_r) x = sum_r W_r (x / R): the node itself as one more term of every relation
        received = received + (((1 + self.eps) / self.num_relations).to(x_dst.dtype) * x_dst)[:, None]
        hidden = batched_linear(received.flatten(1), self.lin().flatten(0, 1).T, self.bias, relu=True)
        return linear(self.lin_out, hidden)

    def coefficients(self, adj: RelationalAdj) -> Coefficients:
        """Why `graphprism.certify` proves nothing: messages are not linear in the rows of senders."""
        check_relations(adj, self.num_relations)
        return Coefficients(type(self).__name__, unproven=UNPROVEN)

    def extra_repr(self) -> str:
        """Sizes for ``print``."""
        return f"{self.in_channels}, {self.out_channels}, num_relations={self.num_relations}, edge_dim={self.edge_dim}"


def received_rows(conv: RelationalConv, x_src: Tensor, x_dst: Tensor, adj: Prepared, edges: Tensor | None) -> Tensor:
    """The sums of messages after ReLU by relation, (N, R, F_in); by PyG's ``propagate`` where edges are watched."""
    if not conv.is_by_edge:
        return relu_sum(x_src, adj, edges, by_relation=True)
    graph, count = graph_by_edge(x_src, adj), int(conv.num_relations)
    rows = x_src.index_select(0, graph.edge_index[0].long())
    rows = (rows if edges is None else rows + edges).relu()
    types = graph.edge_type
    if types is None:
        share = rows.new_ones(rows.size(0), 1)
    elif graph.is_soft:
        share = types.to(rows.dtype)
    else:
        share = torch.nn.functional.one_hot(types.long(), count).to(rows.dtype)
    placed = (share[:, :, None] * rows[:, None]).flatten(1)  # (E, R F_in)
    out = conv.sum_by_edge((x_src, x_dst), graph, placed, weight=graph.edge_weight)
    return out.view(-1, count, x_src.size(1))
