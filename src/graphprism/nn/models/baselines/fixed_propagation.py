"""Networks that propagate without weights between the steps: H2GCN, GPR-GNN and FSGNN."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.dense import Linear

from graphprism.nn.models.baselines.matrices import (
    Matrix,
    dense_if_that_pays,
    edge_matrix,
    norm_matrix,
    simple_edges,
    spread,
    transform,
    two_hops,
    with_loops,
)
from graphprism.ops.dropout import dropout


class H2GCN(torch.nn.Module):
    r"""H2GCN (Zhu et al., 2020): neighbours at distance one and two, kept separate, and all rounds concatenated.

    .. math:: \mathbf{H}_0 = \operatorname{relu}(\mathbf{X} \mathbf{W}_e), \quad \mathbf{H}_k = [\bar{\mathbf{A}}_1
        \mathbf{H}_{k-1} \,\Vert\, \bar{\mathbf{A}}_2 \mathbf{H}_{k-1}], \quad \mathbf{Y} = [\mathbf{H}_0
        \,\Vert\, \dots \,\Vert\, \mathbf{H}_K] \mathbf{W}_c

    where :math:`\bar{\mathbf{A}}_1` joins neighbours and :math:`\bar{\mathbf{A}}_2` nodes at distance two, both
    symmetrically normalised and without loops, and :math:`K` is ``num_layers``.

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
    ) -> None:
        super().__init__()
        self.num_layers, self.dropout = num_layers, dropout
        self.encoder = Linear(in_channels, hidden_channels, bias=False)
        self.head = Linear(hidden_channels * (2 ** (num_layers + 1) - 1), out_channels, bias=False)

    @staticmethod
    def prepare(x: Tensor, edge_index: Tensor, dtype: torch.dtype) -> tuple[Matrix, Matrix]:
        """Both matrices of an undirected graph."""
        num_nodes = x.size(0)
        both = (simple_edges(edge_index, num_nodes), two_hops(edge_index, num_nodes))
        near, far = (dense_if_that_pays(norm_matrix(edges, num_nodes, "sym", dtype)) for edges in both)
        return near, far

    def forward(self, x: Tensor, graph: tuple[Matrix, Matrix], generator: torch.Generator | None = None) -> Tensor:
        """One output row for every node."""
        states = [self.encoder(x).relu()]
        for _ in range(self.num_layers):
            states.append(torch.cat([spread(matrix, states[-1]) for matrix in graph], dim=-1))
        h = torch.cat(states, dim=-1)
        out: Tensor = self.head(dropout(h, self.dropout * self.training, generator))
        return out


class GPRGNN(torch.nn.Module):
    r"""GPR-GNN (Chien et al., 2021): a learned polynomial of the graph after a network on single nodes.

    .. math:: \mathbf{Y} = \sum_{k=0}^{K} \gamma_k \hat{\mathbf{A}}^k \operatorname{MLP}(\mathbf{X})

    where :math:`\hat{\mathbf{A}}` is symmetrically normalised with loops, and :math:`\gamma_k` starts as
    :math:`\alpha (1 - \alpha)^k`, the last one as :math:`(1 - \alpha)^K`. The MLP has ``num_layers`` maps.

    Args:
        in_channels: size of a node feature.
        hidden_channels: width of the MLP.
        out_channels: size of an output row.
        num_layers: maps of the MLP.
        dropout: share of channels dropped after every ReLU of the MLP.
        steps: :math:`K`.
        alpha: :math:`\alpha`.
        late_dropout: share of the MLP's outputs dropped before the first step.

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
        steps: int = 10,
        alpha: float = 0.1,
        late_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.dropout, self.late_dropout = dropout, late_dropout
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.lins = torch.nn.ModuleList(Linear(i, o) for i, o in pairwise(widths))
        first = [alpha * (1 - alpha) ** k for k in range(steps)]
        self.gamma = torch.nn.Parameter(torch.tensor([*first, (1 - alpha) ** steps]))

    @staticmethod
    def prepare(x: Tensor, edge_index: Tensor, dtype: torch.dtype) -> Matrix:
        """The normalised matrix of an undirected graph."""
        return norm_matrix(with_loops(edge_index, x.size(0)), x.size(0), "sym", dtype)

    def forward(self, x: Tensor, graph: Matrix, generator: torch.Generator | None = None) -> Tensor:
        """One output row for every node."""
        h = self.lins[0](x)
        for lin in self.lins[1:]:
            h = lin(dropout(h.relu(), self.dropout * self.training, generator))
        h = dropout(h, self.late_dropout * self.training, generator)
        out = self.gamma[0] * h
        for factor in self.gamma[1:]:
            h = spread(graph, h)
            out = out + factor * h
        return out


class FSGNN(torch.nn.Module):
    r"""FSGNN (Maurya et al., 2022): features after 0, 1, ... steps, with and without loops, with softmax weights.

    .. math:: \mathbf{Y} = \operatorname{relu}\Big( \big\Vert_{l} \operatorname{softmax}(\mathbf{a})_l \,
        \frac{\mathbf{X}_l \mathbf{W}_l}{\lVert \mathbf{X}_l \mathbf{W}_l \rVert_2} \Big) \mathbf{W}_c, \quad
        \mathbf{X}_l \in \{\mathbf{X}, \mathbf{A} \mathbf{X}, \tilde{\mathbf{A}} \mathbf{X}, \mathbf{A}^2 \mathbf{X},
        \dots\}

    where the norm is that of every row, and :math:`\mathbf{A} = \mathbf{D}^{-1/2} \mathbf{E} \mathbf{D}^{-1/2}` reads
    the nodes that a node points to, with out-degrees at both ends, :math:`\tilde{\mathbf{A}}` the same with loops.
    There are ``num_layers`` steps.

    Args:
        in_channels: size of a node feature.
        hidden_channels: width of each map.
        out_channels: size of an output row.
        num_layers: number of steps.
        dropout: share of channels dropped before the last map.
        soft_lr: learning rate of :math:`\mathbf{a}`, as a multiple of the others'.
        soft_decay: weight decay of :math:`\mathbf{a}`.
        head_decay: weight decay of :math:`\mathbf{W}_c`.

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
        soft_lr: float = 1.0,
        soft_decay: float = 0.0,
        head_decay: float = 0.0,
    ) -> None:
        super().__init__()
        self.dropout, self.soft_lr, self.soft_decay, self.head_decay = dropout, soft_lr, soft_decay, head_decay
        count = 2 * num_layers + 1
        self.weight = torch.nn.Parameter(torch.empty(count, in_channels, hidden_channels))
        self.bias = torch.nn.Parameter(torch.empty(count, hidden_channels))
        for parameter in (self.weight, self.bias):  # initialised as in `torch.nn.Linear`
            torch.nn.init.uniform_(parameter, -(in_channels**-0.5), in_channels**-0.5)
        self.soft = torch.nn.Parameter(torch.ones(count))
        self.head = Linear(hidden_channels * count, out_channels)

    @staticmethod
    def prepare(x: Tensor, edge_index: Tensor, dtype: torch.dtype, num_layers: int) -> Tensor | tuple[Matrix, Matrix]:
        """Both matrices of a directed graph; on a GPU all features after their steps, which are taken once.

        An epoch on Chameleon, 17 dense products or one sparse one and steps of 64 channels: 0.55 and 0.15 s on one
        core, 104 and 211 operations.
        """
        num_nodes = x.size(0)
        edges = simple_edges(edge_index, num_nodes)
        plain, looped = (_out_matrix(each, num_nodes, dtype) for each in (edges, with_loops(edges, num_nodes)))
        return (plain, looped) if x.device.type == "cpu" else propagated(x, (plain, looped), num_layers)

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Groups for the optimiser; ``lr_factor`` multiplies the learning rate of the run."""
        return [
            {"params": [self.weight, self.bias], "weight_decay": weight_decay},
            {"params": [self.soft], "weight_decay": self.soft_decay, "lr_factor": self.soft_lr},
            {"params": [*self.head.parameters()], "weight_decay": self.head_decay},
        ]

    def forward(
        self, x: Tensor, graph: Tensor | tuple[Matrix, Matrix], generator: torch.Generator | None = None
    ) -> Tensor:
        """One output row for every node; propagated features take the place of ``x``."""
        maps = graph @ self.weight if isinstance(graph, Tensor) else self._propagate(x, graph)  # (L, N, F)
        states = torch.nn.functional.normalize(maps + self.bias[:, None], dim=-1)
        weights = self.soft.softmax(dim=0)
        h = (weights[:, None, None] * states).relu().transpose(0, 1).flatten(1)
        out: Tensor = self.head(dropout(h, self.dropout * self.training, generator))
        return out

    def _propagate(self, x: Tensor, graph: tuple[Matrix, Matrix]) -> Tensor:
        """Maps before steps, so that 64 channels are propagated instead of all features."""
        first, *maps = transform(x, self.weight).unbind(1)
        parts: list[Tensor] = [first]
        for step in range(len(maps) // 2):
            pair = []
            for number, matrix in enumerate(graph):
                # all states that still have steps to go, concatenated, take one step
                going = torch.cat(maps[2 * step + number :: 2], dim=-1)
                moved = spread(matrix, going).split(first.size(-1), dim=-1)
                maps[2 * step + number :: 2] = moved
                pair.append(moved[0])
            parts += pair
        return torch.stack(parts)


def propagated(x: Tensor, matrices: tuple[Matrix, Matrix], num_steps: int) -> Tensor:
    """Features after 0, 1, ... steps with each of two matrices in turn: (N, F) -> (2 K + 1, N, F)."""
    found, pair = [x], [x, x]
    for _ in range(num_steps):
        pair = [spread(matrix, each) for matrix, each in zip(matrices, pair, strict=True)]
        found += pair
    return torch.stack(found)


def _out_matrix(edges: Tensor, num_nodes: int, dtype: torch.dtype) -> Matrix:
    degree = torch.bincount(edges[0], minlength=num_nodes).clamp(min=1).to(dtype)
    root = degree.rsqrt()
    return edge_matrix(edges.flip(0), num_nodes, root[edges[0]] * root[edges[1]])
