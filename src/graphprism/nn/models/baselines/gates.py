"""Networks with a learned gate per node on each propagation step: ACM-GCN and Gradient Gating."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn.dense import Linear

from graphprism.nn.conv import MRSSAGEConv
from graphprism.nn.models.baselines.matrices import Matrix, edge_matrix, norm_matrix, spread, transform, with_loops
from graphprism.ops import RelationalAdj
from graphprism.ops.dropout import dropout


class ACMGraph(NamedTuple):
    """Matrices of ACM-GCN.

    Attributes:
        low: Random-walk normalised, with loops.
        plain: The adjacency matrix, without normalisation and loops.
    """

    low: Matrix
    plain: Matrix


class ACMGCN(torch.nn.Module):
    r"""ACM-GCN and ACM-GCN+ (Luan et al., 2022): low-pass, high-pass and identity channels, mixed for every node.

    .. math:: \mathbf{X}' = s \sum_c \alpha_c \odot \mathbf{H}_c, \quad \mathbf{H}_c = \operatorname{relu}(\mathbf{F}_c
        \mathbf{X} \mathbf{W}_c), \quad \alpha = \operatorname{softmax}\big(\operatorname{sigmoid}([\mathbf{H}_c
        \mathbf{v}_c]_c) \mathbf{V} / C\big)

    with the filters :math:`\mathbf{F} = \mathbf{D}^{-1} (\mathbf{A} + \mathbf{I})`, :math:`\mathbf{I} - \mathbf{F}` and
    :math:`\mathbf{I}` of the :math:`C = 3` channels, and :math:`s = 3`. ACM-GCN+ (``structure``) has a fourth channel
    :math:`\operatorname{relu}(\mathbf{A} \mathbf{P})` with a free row of :math:`\mathbf{P}` for every node, :math:`C =
    4` and :math:`s = 1`, as in its authors' code. There are two layers, with a ReLU in between.

    Args:
        in_channels: size of a node feature.
        hidden_channels: width of the first layer.
        out_channels: size of an output row.
        num_layers: must be 2.
        num_nodes: number of nodes N.
        dropout: share of channels dropped between the layers.
        structure: whether there is a fourth channel.

    Shapes: ``x`` (N, F), ``graph`` from `prepare` -> (N, F_out)
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        *,
        num_nodes: int,
        dropout: float = 0.0,
        structure: bool = False,
    ) -> None:
        super().__init__()
        if num_layers != 2:
            raise ValueError(f"`num_layers` must be 2 for ACM-GCN, got {num_layers}")
        self.dropout, rows = dropout, num_nodes if structure else None
        self.first = _ACMLayer(in_channels, hidden_channels, rows)
        self.second = _ACMLayer(hidden_channels, out_channels, rows)

    @staticmethod
    def prepare(x: Tensor, edge_index: Tensor, dtype: torch.dtype) -> ACMGraph:
        """Both matrices of an undirected graph without loops."""
        num_nodes = x.size(0)
        ones = torch.ones(edge_index.size(1), dtype=dtype, device=edge_index.device)
        low = norm_matrix(with_loops(edge_index, num_nodes), num_nodes, "mean", dtype)
        return ACMGraph(low, edge_matrix(edge_index, num_nodes, ones))

    def forward(self, x: Tensor, graph: ACMGraph, generator: torch.Generator | None = None) -> Tensor:
        """One output row for every node."""
        h = self.first(x, graph).relu()
        out: Tensor = self.second(dropout(h, self.dropout * self.training, generator), graph)
        return out


class _ACMLayer(torch.nn.Module):
    """One layer; ``rows`` is the number of nodes of the fourth channel, None without it."""

    def __init__(self, in_channels: int, out_channels: int, rows: int | None) -> None:
        super().__init__()
        channels = 3 if rows is None else 4
        self.weight = torch.nn.Parameter(torch.empty(3, in_channels, out_channels))
        self.score = torch.nn.Parameter(torch.empty(channels, out_channels))
        self.mix = torch.nn.Parameter(torch.empty(channels, channels))
        self.structure = None if rows is None else torch.nn.Parameter(torch.empty(rows, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform initialisation, as in the authors' code."""
        matrices = [self.weight] if self.structure is None else [self.weight, self.structure]
        for parameter in matrices:
            torch.nn.init.uniform_(parameter, -(parameter.size(-1) ** -0.5), parameter.size(-1) ** -0.5)
        torch.nn.init.uniform_(self.score, -1, 1)
        torch.nn.init.uniform_(self.mix, -(self.mix.size(1) ** -0.5), self.mix.size(1) ** -0.5)

    def forward(self, x: Tensor, graph: ACMGraph) -> Tensor:
        low, high, own = transform(x, self.weight).unbind(1)
        found = [spread(graph.low, low), high - spread(graph.low, high), own]
        if self.structure is not None:
            found.append(spread(graph.plain, self.structure))
        states = torch.stack(found, dim=1).relu()  # (N, C, F)
        count = states.size(1)
        logits = (states * self.score).sum(-1).sigmoid() @ self.mix / count
        mixed = (logits.softmax(dim=1)[:, :, None] * states).sum(1)
        return 3 * mixed if count == 3 else mixed


class GradientGating(torch.nn.Module):
    r"""Gradient Gating, :math:`\mathrm{G}^2` (Rusch et al., 2023): a gate for every node and channel stops mixing.

    .. math:: \mathbf{X}' = (1 - \tau) \odot \mathbf{X} + \tau \odot \hat{\mathbf{X}}, \quad \hat{\mathbf{X}} =
        \operatorname{relu}(F(\mathbf{X})), \quad \tau_i = \tanh\Big(\frac{1}{|\mathcal{N}(i)|} \sum_{j \in
        \mathcal{N}(i)} |\hat{\mathbf{x}}_i - \hat{\mathbf{x}}_j|^p\Big)

    where :math:`F` is one GraphSAGE layer that all ``num_layers`` steps share, and :math:`\mathcal{N}(i)` are the nodes
    that :math:`i` points to. A linear map with ReLU comes first, a linear map last.

    Args:
        in_channels: size of a node feature.
        hidden_channels: width of all steps.
        out_channels: size of an output row.
        num_layers: number of steps.
        dropout: unused here; training applies it to the features.
        late_dropout: share of channels dropped before the last map.
        exponent: :math:`p`.

    Shapes: ``x`` (N, F), ``graph`` from `prepare` -> (N, F_out)
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        *,
        dropout: float = 0.0,
        late_dropout: float = 0.0,
        exponent: float = 2.0,
    ) -> None:
        super().__init__()
        self.num_layers, self.late_dropout, self.exponent = num_layers, late_dropout, exponent
        self.encoder = Linear(in_channels, hidden_channels)
        self.conv = MRSSAGEConv(hidden_channels, hidden_channels, num_relations=1)
        self.head = Linear(hidden_channels, out_channels)

    @staticmethod
    def prepare(x: Tensor, edge_index: Tensor, dtype: torch.dtype) -> RelationalAdj:
        """The graph, unchanged."""
        return edge_matrix(edge_index, x.size(0))

    def forward(self, x: Tensor, graph: RelationalAdj, generator: torch.Generator | None = None) -> Tensor:
        """One output row for every node."""
        h = self.encoder(x).relu()
        for _ in range(self.num_layers):
            new = self.conv(h, graph).relu()
            h = torch.lerp(h, new, gradient_gate(new, graph, self.exponent))
        out: Tensor = self.head(dropout(h, self.late_dropout * self.training, generator))
        return out


def gradient_gate(h: Tensor, graph: RelationalAdj, exponent: float) -> Tensor:
    r"""The gate :math:`\tau` of `GradientGating`; zero for a node without outgoing edges.

    Shapes: ``h`` (N, F) -> (N, F)
    """
    back = graph.transpose().normalized("mean", h.dtype)
    assert back.edge_weight is not None  # set by the norm
    apart = (back.at_senders(h) - back.at_receivers(h)).abs() ** exponent  # (E, F)
    return back.entry_sum(back.edge_weight[:, None] * apart).tanh()
