"""Networks that use a row of the adjacency matrix as features of its node: LINKX and GloGNN."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import LINKX as PyGLINKX
from torch_geometric.nn.dense import Linear

from graphprism.nn.models.baselines.matrices import Matrix, norm_matrix, spread, with_loops
from graphprism.ops.dropout import dropout


class LINKX(torch.nn.Module):
    r"""LINKX (Lim et al., 2021), PyG's network with dropout from an explicit generator.

    .. math:: \mathbf{Y} = \operatorname{MLP}_f\big(\operatorname{relu}(\mathbf{W} [\mathbf{H}_A \,\Vert\, \mathbf{H}_X]
        + \mathbf{H}_A + \mathbf{H}_X)\big), \quad \mathbf{H}_A = \operatorname{MLP}_A(\mathbf{A}), \quad \mathbf{H}_X =
        \operatorname{MLP}_X(\mathbf{X})

    where row :math:`i` of :math:`\mathbf{A}` marks the nodes that :math:`i` points to.

    Args:
        in_channels: size of a node feature.
        hidden_channels: width of all maps.
        out_channels: size of an output row.
        num_layers: maps of the last MLP.
        num_nodes: number of nodes N.
        dropout: share of channels dropped in the last MLP.
        edge_layers: maps of the MLP on the adjacency matrix.
        node_layers: maps of the MLP on the features.

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
        edge_layers: int = 1,
        node_layers: int = 1,
    ) -> None:
        super().__init__()
        self.num_nodes = num_nodes
        sizes = (num_nodes, in_channels, hidden_channels, out_channels, num_layers)
        self.network = PyGLINKX(*sizes, num_edge_layers=edge_layers, num_node_layers=node_layers)
        norms = self.network.final_mlp.norms
        self.drops = [_DropAfter(norm, dropout) for norm in norms]
        self.network.final_mlp.norms = torch.nn.ModuleList(self.drops)

    @staticmethod
    def prepare(x: Tensor, edge_index: Tensor, dtype: torch.dtype) -> Tensor:
        """The reversed edges: PyG's network reads the nodes that point to a node."""
        return edge_index.flip(0).contiguous()

    def forward(self, x: Tensor, graph: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """One output row for every node."""
        for drop in self.drops:
            drop.generator = generator
        out: Tensor = self.network(x, graph)
        return out


class _DropAfter(torch.nn.Module):
    """A norm of PyG's MLP and the dropout that follows it."""

    def __init__(self, norm: torch.nn.Module, share: float) -> None:
        super().__init__()
        self.norm, self.share = norm, share
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        return dropout(self.norm(x), self.share * self.training, self.generator)


class GloGNN(torch.nn.Module):
    r"""GloGNN (Li et al., 2022): every node aggregates over all others, with coefficients in closed form.

    .. math:: \mathbf{H}_0 = \mathbf{W}_2 \operatorname{relu}(\delta \mathbf{X} \mathbf{W}_x + (1 - \delta) \mathbf{A}
        \mathbf{W}_a), \quad \mathbf{H}' = (1 - \gamma) \mathbf{Z}^* \mathbf{H} + \gamma \mathbf{H}_0

    where :math:`\mathbf{A}` is random-walk normalised with loops and :math:`\mathbf{Z}^*` minimises
    :math:`\lVert \mathbf{H} - (1 - \gamma) \mathbf{Z} \mathbf{H} - \gamma \mathbf{H}_0 \rVert^2 + \alpha \lVert
    \mathbf{Z} \rVert^2 + \beta \lVert \mathbf{Z} - \sum_k \lambda_k \mathbf{A}^k \rVert^2`:

    .. math:: \mathbf{Z}^* = \Big((1 - \gamma) \mathbf{H} \mathbf{H}^\top + \beta \sum_k \lambda_k \mathbf{A}^k -
        \gamma (1 - \gamma) \mathbf{H}_0 \mathbf{H}^\top\Big) \big((1 - \gamma)^2 \mathbf{H} \mathbf{H}^\top + (\alpha +
        \beta) \mathbf{I}\big)^{-1}

    The inverse acts on :math:`\mathbf{H}` alone, so that by Woodbury's identity only a matrix of :math:`F_{out}` rows
    is inverted. The update is applied ``num_layers`` times.

    GloGNN++ has a factor :math:`d_c` for every channel, :math:`\mathbf{D} = \operatorname{diag}(\mathbf{d})`:
    :math:`\mathbf{H} \mathbf{D} \mathbf{H}^\top` and :math:`\mathbf{H}_0 \mathbf{D} \mathbf{H}^\top` in the first
    factor of :math:`\mathbf{Z}^*`, and :math:`\mathbf{Z}^* \mathbf{H} \mathbf{D}` in the update.

    Args:
        in_channels: size of a node feature.
        hidden_channels: width of the first maps.
        out_channels: size of an output row.
        num_layers: number of updates.
        num_nodes: number of nodes N.
        dropout: share of channels dropped after ReLU.
        alpha: :math:`\alpha`.
        beta: :math:`\beta`.
        gamma: :math:`\gamma`.
        delta: :math:`\delta`.
        orders: :math:`K`; the :math:`\lambda_k` are trained, from :math:`1 / K`.
        channel_factors: GloGNN++; the factors :math:`d_c` are trained, from one over the number of channels.

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
        alpha: float = 0.0,
        beta: float = 1.0,
        gamma: float = 0.0,
        delta: float = 0.5,
        orders: int = 1,
        channel_factors: bool = False,
    ) -> None:
        super().__init__()
        self.num_layers, self.dropout = num_layers, dropout
        self.alpha, self.beta, self.gamma, self.delta = alpha, beta, gamma, delta
        # omitted with weight zero: it would get no gradient
        self.features = Linear(in_channels, hidden_channels) if delta else None
        self.num_nodes = num_nodes if delta < 1 else None  # None: without a weight for each node
        self.neighbours = Linear(num_nodes, hidden_channels) if delta < 1 else None
        self.head = Linear(hidden_channels, out_channels)
        self.orders = torch.nn.Parameter(torch.full((orders,), 1 / orders))
        factors = torch.full((out_channels,), 1 / out_channels) if channel_factors else None
        self.factors = None if factors is None else torch.nn.Parameter(factors)

    @staticmethod
    def prepare(x: Tensor, edge_index: Tensor, dtype: torch.dtype) -> Matrix:
        """The normalised matrix of an undirected graph."""
        return norm_matrix(with_loops(edge_index, x.size(0)), x.size(0), "mean", dtype)

    def forward(self, x: Tensor, graph: Matrix, generator: torch.Generator | None = None) -> Tensor:
        """One output row for every node."""
        parts = []
        if self.features is not None:
            parts.append(self.delta * self.features(x))
        if self.neighbours is not None:
            rows = spread(graph, self.neighbours.weight.t()) + self.neighbours.bias
            parts.append((1 - self.delta) * rows)
        first: Tensor = self.head(dropout(sum(parts).relu(), self.dropout * self.training, generator))
        h = first
        for _ in range(self.num_layers):
            h = self._update(h, first, graph)
        return h

    def _update(self, h: Tensor, first: Tensor, graph: Matrix) -> Tensor:
        """One update with the optimal coefficients, without an (N, N) matrix."""
        share, size = 1 - self.gamma, 1 / (self.alpha + self.beta)
        gram = h.t() @ h
        eye = torch.eye(h.size(1), dtype=h.dtype, device=h.device)
        inverse = small_inverse(eye / share**2 + size * gram)
        solved = share * size * (h - size * h @ (inverse @ gram))  # the inverse times H, scaled
        if self.factors is not None:
            solved = solved * self.factors
        inner = h.t() @ solved
        if self.factors is not None:
            inner = self.factors[:, None] * inner
        hops = solved
        out: Tensor = share * h @ inner - self.gamma * share * first @ inner + self.gamma * first
        for weight in self.orders:
            hops = spread(graph, hops)
            out = out + self.beta * weight * hops
        return out


def small_inverse(matrix: Tensor) -> Tensor:
    """The inverse of a small symmetric matrix with positive eigenvalues, in operations that a CUDA graph captures.

    Solvers of `torch.linalg` allocate memory of their own or wait for the device.

    Shapes: ``matrix`` (F, F) -> (F, F)

    >>> small_inverse(torch.tensor([[2.0, 1.0], [1.0, 1.0]])).tolist()
    [[1.0, -1.0], [-1.0, 2.0]]
    """
    out: Tensor = _SmallInverse.apply(matrix)  # type: ignore[no-untyped-call]
    return out


class _SmallInverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor) -> Tensor:
        # With ones on the diagonal no pivot is above 1. A sweep subtracts numbers of the size of a pivot to get its
        # inverse: entries of 1e5 would leave six digits, entries of 1e8 none.
        scale = matrix.diagonal().double().rsqrt()
        scales = torch.outer(scale, scale)
        swept, units = matrix * scales, torch.eye(matrix.size(0), dtype=torch.float64, device=matrix.device)
        for k, unit in enumerate(units):  # Gauss and Jordan in place; such a matrix needs no pivots
            swept = torch.addr(swept, swept[:, k] - unit, (swept[k] + unit) / swept[k, k], alpha=-1)
        inverse = (swept * scales).to(matrix.dtype)
        ctx.save_for_backward(inverse)
        return inverse

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (inverse,) = ctx.saved_tensors
        out: Tensor = -inverse.t() @ grad @ inverse.t()
        return out
