"""MRS-GCNE: graph convolution with edge features and a ReLU in its messages."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.dense import Linear

from graphprism._checks import check_flag, check_optional_whole, check_positive
from graphprism.nn.conv.operands import (
    Nodes,
    Prepared,
    check_edge_rows,
    check_features,
    check_in_channels,
    check_relations,
    linear,
    split_nodes,
    to_adj,
    zeros_parameter,
)
from graphprism.nn.conv.relational_conv import RelationalConv, graph_by_edge, sender_rows_by_edge
from graphprism.nn.conv.relational_weight import DECAY, RelationalWeight
from graphprism.ops import Coefficients, RelationalAdj
from graphprism.ops.batched.row_maps import add_row
from graphprism.ops.batched.vmap import only_vmap
from graphprism.ops.pair_rows import sender_rows
from graphprism.ops.relu_sum import relu_sum


class MRSGCNEConv(RelationalConv):
    r"""Graph convolution with edge features and one weight matrix per relation (MRS-GCNE).

    .. math:: \mathbf{x}'_i = \mathbf{b} + \sum_{r} \sum_{e = (j, i),\, r(e) = r} w_e \,
        \max(0, \mathbf{W}_r^\top \mathbf{x}_j + \mathbf{a}_e)

    where :math:`\mathbf{a}_e` are the features of the edge and :math:`w_e` is ``edge_weight``, else one. One relation
    is the convolution of GCN+ (Luo et al., 2025), without degree normalisation and without self-loops.

    Args:
        in_channels: size of an input row, or ``-1`` to take it from the first input.
        out_channels: size of an output row.
        num_relations: number of relations R.
        edge_dim: size of an edge feature; other sizes than ``out_channels`` go through a linear map first. `None` for
            no edge features.
        bias: whether to learn :math:`\mathbf{b}`.
        start: ``"shared"`` starts as the plain layer, all relations with equal weights; ``"independent"`` draws the
            weights of each relation. See `RelationalParameter`.
        decay: how strongly a shared start ties the relations to their common weights, 0 for not at all.
        deviation: difference of a relation from the common weights: ``"full"`` is a matrix, ``"diagonal"`` one factor
            per output channel, with few parameters. See `RelationalParameter`.

    Shapes: ``x`` (N, F_in) or a pair (senders, receivers), ``edge_index`` (2, E), ``edge_type`` (E,) or (E, R),
    ``edge_weight`` (E,), ``edge_attr`` (E, D) -> (N, F_out); ``edge_index`` may be a `RelationalAdj`.

    Example:
        >>> conv = MRSGCNEConv(8, 4, num_relations=3, edge_dim=4)
        >>> edges, types = torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.tensor([0, 1, 2])
        >>> conv(torch.randn(3, 8), edges, types, edge_attr=torch.randn(3, 4)).shape
        torch.Size([3, 4])
    """

    edge_norm = "none"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        num_relations: int = 3,
        edge_dim: int | None = None,
        bias: bool = True,
        start: str = "shared",
        decay: float = DECAY,
        deviation: str = "full",
    ) -> None:
        super().__init__()
        check_positive("out_channels", out_channels)
        check_in_channels(in_channels)
        check_optional_whole("edge_dim", edge_dim)
        check_flag("bias", bias)
        self.in_channels, self.out_channels, self.num_relations = in_channels, out_channels, num_relations
        self.edge_dim = edge_dim
        self.lin = RelationalWeight(
            in_channels, out_channels, num_relations, "kaiming_uniform", start, decay, deviation
        )
        self.lin_edge = Linear(edge_dim, out_channels) if edge_dim not in (None, out_channels) else None
        self.bias = zeros_parameter(out_channels, bias)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        self.lin.reset_parameters()
        if self.lin_edge is not None:
            self.lin_edge.reset_parameters()
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

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
        check_features(x, self.lin)
        edges = edge_rows(edge_attr, self.edge_dim, self.lin_edge, adj)
        weight = self.lin(x_src)
        if self.is_by_edge:
            graph = graph_by_edge(x_src, adj)
            rows = _by_edge(x_src, graph, weight, edges)
            out = self.sum_by_edge((x_src, x_dst), graph, rows, weight=graph.edge_weight)
        else:
            out = self._sum(x_src, adj, weight, edges)
        if self.bias is None:
            return out
        return add_row(out, self.bias) if out.dim() == 2 and only_vmap() else out + self.bias

    @staticmethod
    def _sum(x: Tensor, adj: Prepared, weight: Tensor, edges: Tensor | None) -> Tensor:
        h, graph = sender_rows(x, adj, weight)
        if graph is not adj and isinstance(graph, RelationalAdj) and isinstance(adj, RelationalAdj):
            # rows of active pairs only: entry k of `adj` is edge k of this graph
            graph = graph.with_weight(adj.weight)
            edges = edges if edges is None or adj.entry_edge is None else edges.index_select(0, adj.entry_edge)
        return relu_sum(h, graph, edges)

    def coefficients(self, adj: RelationalAdj) -> Coefficients:
        """Why `graphprism.certify` proves nothing: messages are not linear in the rows of senders."""
        check_relations(adj, self.num_relations)
        return Coefficients(type(self).__name__, unproven=UNPROVEN)

    def extra_repr(self) -> str:
        """Sizes for ``print``."""
        return f"{self.in_channels}, {self.out_channels}, num_relations={self.num_relations}, edge_dim={self.edge_dim}"


def _by_edge(x: Tensor, adj: RelationalAdj, weight: Tensor, edges: Tensor | None) -> Tensor:
    """The message of every edge, (E, F_out); with soft types those of all relations, weighted by their scores."""
    if not adj.is_soft:
        rows = sender_rows_by_edge(x, adj, weight)
        return (rows if edges is None else rows + edges).relu()
    rows = torch.einsum("ef,rfo->ero", x.index_select(0, adj.edge_index[0].long()), weight)
    rows = (rows if edges is None else rows + edges[:, None]).relu()
    return torch.einsum("er,ero->eo", adj.scores.to(rows.dtype), rows)


UNPROVEN = "its messages pass a ReLU before they are summed"


def edge_rows(
    edge_attr: Tensor | None, edge_dim: int | None, lin_edge: torch.nn.Module | None, adj: Prepared
) -> Tensor | None:
    """The edge features added to messages, through ``lin`` if any; raises if missing or unexpected."""
    if edge_attr is None or edge_dim is None:
        if edge_attr is not None or edge_dim is not None:
            must, came = ("given when `edge_dim` is set", "None") if edge_dim is not None else ("None", "a tensor")
            raise ValueError(f"`edge_attr` must be {must}, got {came}")
        return None
    check_edge_rows(edge_attr, adj, edge_dim)
    return edge_attr if lin_edge is None else linear(lin_edge, edge_attr)
