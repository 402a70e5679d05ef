"""MRS-GAT."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.dense import Linear
from torch_geometric.nn.inits import glorot, zeros

from graphprism._checks import check_positive
from graphprism.nn.conv.operands import Nodes, Prepared, check_edge_attr, split_nodes, to_adj, zeros_parameter
from graphprism.nn.conv.relational_weight import DECAY, RelationalWeight
from graphprism.ops import at_receivers, at_senders, edge_softmax, relational_sum


class MRSGATConv(torch.nn.Module):
    r"""Graph attention with one weight matrix per relation and one attention over all of them (MRS-GAT).

    .. math:: \mathbf{x}'_i = \mathbf{b} + \sum_{e = (j, i)} \alpha_e \mathbf{W}_{r(e)}^\top \mathbf{x}_j, \qquad
        \alpha_e = \operatorname{softmax}_{e \to i} \operatorname{LeakyReLU} \big(
        \mathbf{a}_s^\top \mathbf{W}_{r(e)}^\top \mathbf{x}_j + \mathbf{a}_t^\top \mathbf{W}_{r(e)}^\top \mathbf{x}_i
        \big)

    for every head. The attention vectors :math:`\mathbf{a}_s, \mathbf{a}_t` are shared by the relations, and the
    softmax runs over all incoming edges, whatever their relation. An edge of weight :math:`w` counts as :math:`w`
    edges. One relation is PyG's ``GATConv(add_self_loops=False)``; self-loops are edges like others, add them before
    the split.

    Args:
        in_channels: size of an input row, a pair (senders, receivers) for a bipartite graph, ``-1`` to take a size from
            the first input.
        out_channels: size of an output row of one head.
        heads: number of heads H.
        concat: whether to put the heads side by side; else they are averaged.
        negative_slope: slope of LeakyReLU.
        dropout: share of attention coefficients dropped in training.
        edge_dim: size of an edge feature that adds :math:`\mathbf{a}_e^\top \mathbf{W}_e^\top \mathbf{e}` to the logit.
        bias: whether to learn :math:`\mathbf{b}`.
        num_relations: number of relations R.
        start: ``"shared"`` starts as the plain layer, with all relations held together; ``"independent"`` is the
            paper's, relations that start apart. See `RelationalParameter`.
        decay: how much stronger a shared start holds what sets a relation apart than what all have in common.

    Shapes: ``x`` (N, F_in) or a pair, ``edge_index`` (2, E), ``edge_type`` (E,) or (E, R), ``edge_weight`` (E,),
    ``edge_attr`` (E, D) -> (N, H * F_out) or (N, F_out); ``edge_index`` may be a `RelationalAdj`.
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
        edge_dim: int | None = None,
        bias: bool = True,
        *,
        num_relations: int = 3,
        start: str = "shared",
        decay: float = DECAY,
    ) -> None:
        super().__init__()
        check_positive("heads", heads)
        self.in_channels, self.out_channels, self.num_relations = in_channels, out_channels, num_relations
        self.heads, self.concat, self.negative_slope, self.dropout = heads, concat, negative_slope, dropout
        self.edge_dim = edge_dim
        pair = isinstance(in_channels, tuple)
        src, dst = in_channels if isinstance(in_channels, tuple) else (in_channels, in_channels)
        self.lin = RelationalWeight(src, heads * out_channels, num_relations, "glorot", start, decay)
        # receivers of another kind need a map of their own; otherwise both ends share theirs, as in PyG
        self.lin_dst = (
            RelationalWeight(dst, heads * out_channels, num_relations, "glorot", start, decay) if pair else None
        )
        self.att_src = torch.nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = torch.nn.Parameter(torch.empty(1, heads, out_channels))
        self.lin_edge = (
            Linear(edge_dim, heads * out_channels, bias=False, weight_initializer="glorot") if edge_dim else None
        )
        self.att_edge = torch.nn.Parameter(torch.empty(1, heads, out_channels)) if edge_dim else None
        self.bias = zeros_parameter(heads * out_channels if concat else out_channels, bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights, as PyG does for its GAT."""
        for module in (self.lin, self.lin_dst, self.lin_edge):
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
    ) -> Tensor:
        """One layer; see the class for shapes."""
        adj = to_adj(x, edge_index, edge_type, edge_weight, self.num_relations)
        x_src, x_dst = split_nodes(x)
        h_src = self._heads(self.lin.transform(x_src))  # (N, R, H, F)
        h_dst = h_src if self.lin_dst is None else self._heads(self.lin_dst.transform(x_dst))
        logit = at_senders((h_src * self.att_src).sum(dim=-1), adj)  # (K, H)
        logit = logit + at_receivers((h_dst * self.att_dst).sum(dim=-1), adj)
        logit = logit + self._edge_logit(edge_attr, adj)
        alpha = edge_softmax(torch.nn.functional.leaky_relu(logit, self.negative_slope), adj)
        alpha = torch.nn.functional.dropout(alpha, self.dropout, self.training)
        out = relational_sum(h_src, adj, alpha)  # (N, H, F)
        out = out.flatten(1) if self.concat else out.mean(dim=1)
        return out if self.bias is None else out + self.bias

    def _heads(self, h: Tensor) -> Tensor:
        return h.view(-1, self.num_relations, self.heads, self.out_channels)

    def _edge_logit(self, edge_attr: Tensor | None, adj: Prepared) -> Tensor | float:
        check_edge_attr(edge_attr, self.lin_edge is not None)
        if edge_attr is None or self.lin_edge is None or self.att_edge is None:
            return 0.0
        logit: Tensor = (self.lin_edge(edge_attr).view(-1, self.heads, self.out_channels) * self.att_edge).sum(dim=-1)
        return logit if adj.entry_edge is None else logit[adj.entry_edge]

    def extra_repr(self) -> str:
        """Sizes for ``print``."""
        return f"{self.in_channels}, {self.out_channels}, num_relations={self.num_relations}, heads={self.heads}"
