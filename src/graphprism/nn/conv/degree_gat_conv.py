"""Graph attention with node degrees in the logits."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graphprism.nn.conv.mrs_gat_conv import MRSGATConv
from graphprism.nn.conv.operands import Prepared
from graphprism.ops import at_receivers, at_senders, entry_sum


class DegreeGATConv(MRSGATConv):
    r"""Graph attention whose two attention vectors have one more entry, for the degree of the node (GAT+degree).

    .. math:: \mathbf{x}'_i = \mathbf{b} + \sum_{e = (j, i)} \alpha_e \mathbf{W}^\top \mathbf{x}_j, \qquad
        \alpha_e = \operatorname{softmax}_{e \to i} \operatorname{LeakyReLU} \big(
        \mathbf{a}_s^\top (\mathbf{W}^\top \mathbf{x}_j \,\|\, d_j) + \mathbf{a}_t^\top (\mathbf{W}^\top \mathbf{x}_i
        \,\|\, d_i) \big)

    for every head, where :math:`d_i` is the in-degree of node :math:`i`. The paper's table of parameters lists this
    baseline; neither its text nor its code defines how the degree enters, and this form fits the parameter count.

    Args:
        in_channels: size of an input row, ``-1`` to take it from the first input.
        out_channels: size of an output row of one head.
        heads: number of heads H.
        concat: whether to concatenate the heads; else they are averaged.

    Shapes: ``x`` (N, F_in), ``edge_index`` (2, E), ``edge_weight`` (E,) -> (N, H * F_out) or (N, F_out);
    ``edge_index`` may be a `RelationalAdj`.
    """

    def __init__(self, in_channels: int, out_channels: int, *, heads: int = 1, concat: bool = True) -> None:
        super().__init__(in_channels, out_channels, num_relations=1, heads=heads, concat=concat)
        self.att_degree = torch.nn.Parameter(torch.empty(2, heads))  # of senders and of receivers
        self._reset_degree()

    def reset_parameters(self) -> None:
        """Draws new weights; the degree entries from the same distribution as their attention vectors."""
        super().reset_parameters()
        if hasattr(self, "att_degree"):  # missing while the base class is constructed
            self._reset_degree()

    def _reset_degree(self) -> None:
        bound = math.sqrt(6 / (self.heads + self.out_channels + 1))
        torch.nn.init.uniform_(self.att_degree, -bound, bound)

    def _edge_logit(self, edge_attr: Tensor | None, adj: Prepared) -> Tensor | float:
        ones = at_receivers(self.att_degree.new_ones(adj.size[1], 1), adj)  # (K, 1)
        degree = entry_sum(ones, adj)  # (N, 1)
        sender, receiver = self.att_degree
        logit = at_senders(degree * sender, adj) + at_receivers(degree * receiver, adj)  # (K, H)
        return logit + super()._edge_logit(edge_attr, adj)
