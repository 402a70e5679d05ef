"""Convolution with learned relations: every edge has a score for each of several matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism._checks import check_flag, check_positive
from graphprism.nn.conv.operands import Prepared, check_in_channels, to_adj, zeros_parameter
from graphprism.nn.conv.relational_conv import RelationalConv, graph_by_edge
from graphprism.nn.conv.relational_weight import RelationalWeight
from graphprism.ops import at_receivers, at_senders, entry_sum


class LMGCConv(RelationalConv):
    r"""LMGC: a matrix for each head, mixed on every edge by learned scores.

    .. math:: \mathbf{x}'_i = \mathbf{b} + \frac{1}{H} \sum_{h=1}^{H} \sum_{j \in \mathcal{N}(i) \cup \{i\}}
        \alpha^h_{ij} \mathbf{W}_h \mathbf{x}_j, \qquad \boldsymbol{\alpha}_{ij} = \tanh \big( \mathbf{M} \,
        \mathrm{LeakyReLU}_{0.2} ([\mathbf{W} \mathbf{x}_j \,\|\, \mathbf{W} \mathbf{x}_i]) + \mathbf{c} \big)

    where :math:`\mathbf{W} \mathbf{x}` is the concatenation of the products with all heads' matrices and
    :math:`\mathbf{M} \in \mathbb{R}^{H \times 2 H F_{out}}` mixes all heads. Messages are summed: no softmax, no degree
    normalisation. Heads are relations with learned scores, so that no split is needed (Roth and Liebig, IJCAI 2025,
    arXiv:2505.11346). A self-loop of the graph counts in addition to the node itself.

    Args:
        in_channels: size of an input row; ``-1`` takes it from the first input.
        out_channels: size of an output row.
        heads: H.
        negative_slope: of LeakyReLU.
        root: whether a node receives from itself.
        bias: whether to add :math:`\mathbf{b}`, which the authors' formula lacks.

    Shapes: ``x`` (N, F_in), ``edge_index`` (2, E), ``edge_weight`` (E,) multiplies messages -> (N, F_out)

    Example:
        >>> conv = LMGCConv(8, 16, heads=4)
        >>> conv(torch.randn(3, 8), torch.tensor([[0, 1], [1, 2]])).shape
        torch.Size([3, 16])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 4,
        *,
        negative_slope: float = 0.2,
        root: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_in_channels(in_channels)
        for name, value in (("out_channels", out_channels), ("heads", heads)):
            check_positive(name, value)
        for name, flag in (("root", root), ("bias", bias)):
            check_flag(name, flag)
        self.in_channels, self.out_channels, self.heads = in_channels, out_channels, heads
        self.negative_slope, self.root = negative_slope, root
        self.num_relations, self.edge_norm = 1, "none"  # of the input graph
        self.lin = RelationalWeight(in_channels, out_channels, heads, "glorot", "independent")
        # for senders and receivers: (2, input heads, channels, scored heads)
        self.score = torch.nn.Parameter(torch.empty(2, heads, out_channels, heads))
        self.score_bias = torch.nn.Parameter(torch.zeros(heads))
        self.bias = zeros_parameter(out_channels, bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights."""
        self.lin.reset_parameters()
        bound = (6 / (2 * self.heads * self.out_channels + self.heads)) ** 0.5  # Glorot's bound for M as one matrix
        torch.nn.init.uniform_(self.score, -bound, bound)
        torch.nn.init.zeros_(self.score_bias)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, edge_index: Tensor | Prepared, edge_weight: Tensor | None = None) -> Tensor:
        """One layer; see the class for shapes."""
        adj = to_adj(x, edge_index, None, edge_weight, 1)
        weight = self.lin(x)  # (H, F_in, F_out)
        h = torch.einsum("nf,hfo->nho", x, weight)
        act = torch.nn.functional.leaky_relu(h, self.negative_slope)
        sent, received = (torch.einsum("nho,hok->nk", act, part) for part in self.score)
        scores = torch.tanh(at_senders(sent, adj) + at_receivers(received, adj) + self.score_bias)  # (K, H)
        rows = at_senders(h.flatten(1), adj).unflatten(1, (self.heads, self.out_channels))
        rows = torch.einsum("kh,kho->ko", scores, rows)
        if self.is_by_edge:
            graph = graph_by_edge(x, adj)
            out = self.sum_by_edge((x, x), graph, rows, weight=graph.edge_weight)
        else:
            out = entry_sum(rows if adj.edge_weight is None else adj.edge_weight.to(rows.dtype)[:, None] * rows, adj)
        if self.root:
            own = torch.tanh(sent + received + self.score_bias)
            out = out + torch.einsum("nh,nho->no", own, h)
        out = out / self.heads
        return out if self.bias is None else out + self.bias

    def extra_repr(self) -> str:
        """Sizes for ``print``."""
        return f"{self.in_channels}, {self.out_channels}, heads={self.heads}"
