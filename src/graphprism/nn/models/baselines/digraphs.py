"""Networks for directed graphs: DiGCN, MagNet and FaberNet."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor
from torch_geometric.nn.dense import Linear
from torch_geometric.nn.inits import glorot

from graphprism._extras import needs_extra
from graphprism.nn.conv.relational_weight import RelationalWeight
from graphprism.nn.models.baselines.matrices import Matrix, edge_matrix, spread, transform
from graphprism.ops import RelationalAdj, relational_aggregate, relational_linear, relational_sum
from graphprism.ops.dropout import dropout


class DiGCN(torch.nn.Module):
    r"""DiGCN (Tong et al., 2020) without inception blocks, with the matrix of PyTorch Geometric Signed Directed.

    .. math:: \mathbf{X}' = \hat{\mathbf{P}} \mathbf{X} \mathbf{W}, \quad \mathbf{P} = \tfrac{1}{2} \big(\Pi^{1/2}
        \tilde{\mathbf{P}} \Pi^{-1/2} + \Pi^{-1/2} \tilde{\mathbf{P}}^\top \Pi^{1/2}\big)

    where :math:`\tilde{\mathbf{P}}` is the transition matrix with loops, :math:`\Pi` the diagonal of its stationary
    distribution with restarts of probability :math:`\alpha`, and :math:`\hat{\mathbf{P}}` is :math:`\mathbf{P}`,
    symmetrically normalised. The distribution is computed by power iteration; the dense eigenvectors of the original
    code run out of memory. ReLU and dropout are between the layers.

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
        self.dropout = dropout
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.convs = torch.nn.ModuleList(_Maps(i, o) for i, o in pairwise(widths))

    @staticmethod
    def prepare(x: Tensor, edge_index: Tensor, dtype: torch.dtype, alpha: float = 0.1) -> Matrix:
        r"""The matrix :math:`\hat{\mathbf{P}}`."""
        with needs_extra("DiGCN"):
            from torch_geometric_signed_directed.utils import cal_fast_appr
        edges, weight = cal_fast_appr(alpha, edge_index.cpu(), x.size(0), torch.float64)
        return edge_matrix(edges.to(edge_index.device), x.size(0), weight.to(edge_index.device, dtype))

    def forward(self, x: Tensor, graph: Matrix, generator: torch.Generator | None = None) -> Tensor:
        """One output row for every node."""
        h, convs = x, cast(list[_Maps], self.convs)
        for number, conv in enumerate(convs):
            if number:
                h = dropout(h.relu(), self.dropout * self.training, generator)
            h = spread(graph, transform(h, conv.weight[None]).squeeze(1)) + conv.bias
        return h


class _Maps(torch.nn.Module):
    """Weights of a layer, one matrix or several, and its bias; initialised as the layers of Signed Directed are."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(shape))
        self.bias = torch.nn.Parameter(torch.zeros(shape[-1]))
        glorot(self.weight)


class MagNet(torch.nn.Module):
    r"""MagNet (Zhang et al., 2021), with the Laplacian of PyTorch Geometric Signed Directed.

    .. math:: \mathbf{X}' = \sum_{k=0}^{K} T_k(\tilde{\mathbf{L}}) \mathbf{X} \mathbf{W}_k + (1 + i) \mathbf{b}, \quad
        \mathbf{L} = \mathbf{I} - \mathbf{D}^{-1/2} \mathbf{A}_s \mathbf{D}^{-1/2} \odot
        \exp(2 \pi i q (\mathbf{A} - \mathbf{A}^\top))

    with complex states :math:`\mathbf{X}`, at first :math:`1 + i` times the features, Chebyshev polynomials
    :math:`T_k`, the symmetric part :math:`\mathbf{A}_s` of the adjacency matrix, and :math:`\tilde{\mathbf{L}} =
    \mathbf{L} - \mathbf{I}`. Numbers with a negative real part are set to zero between layers. A linear map of the real
    and imaginary parts gives the output.

    Args:
        in_channels: size of a node feature.
        hidden_channels: width of the real and of the imaginary part.
        out_channels: size of an output row.
        num_layers: number of layers.
        dropout: share of channels dropped before the last map.
        order: :math:`K`.

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
        order: int = 2,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        widths = [in_channels, *[hidden_channels] * num_layers]
        self.convs = torch.nn.ModuleList(_Maps(order + 1, i, o) for i, o in pairwise(widths))
        self.head = Linear(2 * hidden_channels, out_channels)

    @staticmethod
    def prepare(x: Tensor, edge_index: Tensor, dtype: torch.dtype, q: float = 0.25) -> RelationalAdj:
        r"""The real and the imaginary part of :math:`\tilde{\mathbf{L}}`, as two relations.

        Args:
            x: node features.
            edge_index: edges.
            dtype: type of the coefficients.
            q: :math:`q`, in [0, 0.25]; 0 is the undirected graph.
        """
        with needs_extra("MagNet"):
            from torch_geometric_signed_directed.utils import get_magnetic_Laplacian
        edges, *parts = get_magnetic_Laplacian(edge_index, None, "sym", torch.float64, x.size(0), q)
        size = torch.stack(parts).norm(dim=0)
        # without its loops, which are the identity, and without what is zero up to rounding: with q = 0.25 an edge of
        # one direction is imaginary, one of both is real
        kept = [(edges[0] != edges[1]) & (part.abs() > 1e-9 * size) for part in parts]
        edge_type = torch.cat([torch.full_like(edges[0, chosen], r) for r, chosen in enumerate(kept)])
        weight = torch.cat([part[chosen] for part, chosen in zip(parts, kept, strict=True)]).to(dtype)
        pairs = torch.cat([edges[:, chosen] for chosen in kept], dim=1).flip(0)  # row i reads its columns j
        return RelationalAdj(pairs, edge_type, weight, num_relations=2, num_nodes=x.size(0)).prepare()

    def forward(self, x: Tensor, graph: RelationalAdj, generator: torch.Generator | None = None) -> Tensor:
        """One output row for every node.

        Maps are applied before the polynomials, which then take a few channels instead of all features.
        """
        parts: tuple[Tensor, ...] = (x,)
        for conv in cast(list[_Maps], self.convs):
            maps = [transform(part, conv.weight) for part in parts]  # of the features only once
            terms = torch.cat([maps[0], maps[-1]], dim=-1).unbind(1)  # (N, 2 F) real and imaginary, for each order
            real, imaginary = (_chebyshev(terms, graph) + conv.bias.repeat(2)).chunk(2, dim=-1)
            keep = real >= 0
            parts = keep * real, keep * imaginary
        out: Tensor = self.head(dropout(torch.cat(parts, dim=-1), self.dropout * self.training, generator))
        return out


def _chebyshev(terms: tuple[Tensor, ...], graph: RelationalAdj) -> Tensor:
    r"""The sum of :math:`T_k(\mathbf{L}) \mathbf{Y}_k` by Clenshaw's recurrence, one product for each order.

    Shapes: ``terms`` (N, 2 F) for each k, real and imaginary part -> (N, 2 F)
    """
    if len(terms) == 1:
        return terms[0]
    now = terms[-1]
    later = torch.zeros_like(now)
    for term in terms[-2:0:-1]:
        now, later = term + 2 * _complex_product(graph, now) - later, now
    return terms[0] + _complex_product(graph, now) - later


def _complex_product(graph: RelationalAdj, h: Tensor) -> Tensor:
    """A complex matrix, its parts as two relations, times complex states, their parts side by side."""
    by_real, by_imaginary = relational_aggregate(h, graph).unbind(1)
    real, imaginary = by_imaginary.chunk(2, dim=-1)
    return by_real + torch.cat([-imaginary, real], dim=-1)


class FaberNet(torch.nn.Module):
    r"""FaberNet (Koke and Cremers, 2024), also with one weight per relation.

    .. math:: \mathbf{X}' = \sum_{k=1}^{K} 2^{1-k} \sum_r \big[\alpha \, \mathbf{S}_r \mathbf{S}^{k-1} \mathbf{X}
        \mathbf{W}_{k,r} + (1 - \alpha) \, \mathbf{S}_r^\top (\mathbf{S}^\top)^{k-1} \mathbf{X} \mathbf{V}_{k,r}\big] +
        \mathbf{b}, \quad S_{ij} = (d^{out}_i d^{in}_j)^e

    where row :math:`i` of :math:`\mathbf{S}` holds the edges :math:`i \to j`, :math:`\mathbf{S}_r` those of relation
    :math:`r` alone, and the exponent :math:`e` is ``exponent``. Every layer is followed by the activation, dropout and,
    with ``normalize``, L2 normalisation of each row; the network ends with ``jk`` over all layers and a linear map.
    With ``complex``, states and weights are complex, and real and imaginary part have their own activation, norm and
    columns of the last map. With one order, ``exponent=-0.5``, ``activation="relu"`` and real weights it is Dir-GCN, or
    MRS-Dir-GCN with relations.

    The authors' code differs from the formula of their paper, implemented here, for :math:`K > 1` or complex weights:
    a complex layer uses the first power only, and both directions share the weights.

    Args:
        in_channels: size of a node feature.
        hidden_channels: width of all layers.
        out_channels: size of an output row.
        num_layers: number of layers.
        dropout: share of channels dropped after every activation.
        num_relations: number of relations R.
        alpha: :math:`\alpha`, the weight of the messages from nodes that a node points to.
        jk: ``"cat"`` or ``"max"``.
        normalize: whether to L2-normalise rows.
        start: initialisation of relations, see `RelationalWeight`.
        decay: how strongly relations are tied to their common weights, see `RelationalWeight`.
        order: :math:`K`.
        activation: ``"abs"`` or ``"relu"``.
        complex: whether weights are complex.

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
        num_relations: int = 1,
        alpha: float = 0.5,
        jk: str | None = "max",
        normalize: bool = True,
        start: str = "shared",
        decay: float = 0.0,
        order: int = 1,
        activation: str = "abs",
        complex: bool = False,
    ) -> None:
        super().__init__()
        if jk not in ("cat", "max") or activation not in ("abs", "relu"):
            came = f"{jk!r} and {activation!r}"
            raise ValueError(f'`jk` must be "cat" or "max" and `activation` "abs" or "relu", got {came}')
        self.dropout, self.jk, self.normalize, self.activation = dropout, jk, normalize, activation
        self.parts = 1 + complex
        options = (num_relations, alpha, order, complex, start, decay)
        widths = [in_channels, *[hidden_channels] * num_layers]
        self.convs = torch.nn.ModuleList(_FaberLayer(i, o, *options) for i, o in pairwise(widths))
        self.head = Linear(hidden_channels * (1 + complex) * (num_layers if jk == "cat" else 1), out_channels)

    @staticmethod
    def prepare(
        x: Tensor, edge_index: Tensor, dtype: torch.dtype, edge_type: Tensor | None = None, num_relations: int = 1,
        exponent: float = -0.25,
    ) -> tuple[RelationalAdj, RelationalAdj]:  # fmt: skip
        """The graph with its coefficients, split and whole."""
        num_nodes = x.size(0)
        degrees = (torch.bincount(ends, minlength=num_nodes).clamp(min=1) for ends in edge_index)
        out, into = (degree.to(dtype) ** exponent for degree in degrees)
        weight = out[edge_index[0]] * into[edge_index[1]]
        whole = RelationalAdj(edge_index, None, weight, num_nodes=num_nodes).prepare()
        if edge_type is None:
            return whole, whole
        split = RelationalAdj(edge_index, edge_type, weight, num_relations=num_relations, num_nodes=num_nodes)
        return split.prepare(), whole

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Weight decay for the layers only, as the authors do for complex weights."""
        return [
            {"params": [*self.convs.parameters()], "weight_decay": weight_decay},
            {"params": [*self.head.parameters()], "weight_decay": 0.0},
        ]

    def forward(
        self, x: Tensor, graph: tuple[RelationalAdj, RelationalAdj], generator: torch.Generator | None = None
    ) -> Tensor:
        """One output row for every node."""
        h = x
        states: list[Tensor] = []
        for conv in self.convs:
            h = self._activate(conv(h, graph), generator)
            states.append(h)
        joined = torch.cat(states, dim=-1) if self.jk == "cat" else torch.stack(states).amax(dim=0)
        out: Tensor = self.head(joined)
        return out

    def _activate(self, h: Tensor, generator: torch.Generator | None) -> Tensor:
        h = h.abs() if self.activation == "abs" else h.relu()
        h = dropout(h, self.dropout * self.training, generator)
        if not self.normalize:
            return h
        parts = h.unflatten(-1, (self.parts, -1))  # each has its own norm
        return torch.nn.functional.normalize(parts, dim=-1).flatten(-2)


class _FaberLayer(torch.nn.Module):
    """One layer; with complex weights the real and the imaginary part of a state are side by side."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_relations: int,
        alpha: float,
        order: int,
        complex: bool,
        start: str,
        decay: float,
    ) -> None:
        super().__init__()
        self.in_channels, self.alpha, self.order = in_channels, alpha, order
        ways = [way for way, share in (("out", alpha), ("in", 1 - alpha)) if share]

        def make() -> torch.nn.Module:
            return RelationalWeight(in_channels, out_channels, num_relations=num_relations, start=start, decay=decay)

        self.ways = torch.nn.ModuleDict(
            {way: torch.nn.ModuleList(make() for _ in range(order * (1 + complex))) for way in ways}
        )
        self.bias = torch.nn.Parameter(torch.zeros(1 + complex, out_channels))

    def forward(self, h: Tensor, graph: tuple[RelationalAdj, RelationalAdj]) -> Tensor:
        out = self.bias.flatten()
        for way, weights in self.ways.items():
            # direction "out": node i receives from j for every edge i -> j
            split, whole = (each.transpose() if way == "out" else each for each in graph)
            share = self.alpha if way == "out" else 1 - self.alpha
            found = _polynomial(h, self._matrices(weights, h.size(-1)), split, whole)
            out = out + (found if share == 1 else share * found)
        return out

    def _matrices(self, weights: Any, channels: int) -> Tensor:
        """The weights of all orders and relations; each takes and gives both parts of complex numbers at once."""
        real, *rest = (
            torch.cat([each() for each in weights[first : first + self.order]])
            for first in range(0, len(weights), self.order)
        )
        if not rest:
            return real
        (imaginary,) = rest
        rows = [torch.cat([real, imaginary], dim=-1)]
        if channels > self.in_channels:  # features are real
            rows.append(torch.cat([-imaginary, real], dim=-1))
        return torch.cat(rows, dim=-2)


def _polynomial(h: Tensor, matrices: Tensor, split: RelationalAdj, whole: RelationalAdj) -> Tensor:
    r"""The sum over k of :math:`2^{1-k} \sum_r \mathbf{S}_r \mathbf{S}^{k-1} \mathbf{H} \mathbf{W}_{k,r}`.

    By Horner's rule: one product with all matrices, then one step for each order. Maps come before the steps, which
    then take the channels of the layer instead of all features.

    Shapes: ``h`` (N, F), ``matrices`` (K * R, F, F') -> (N, F')
    """
    relations = split.num_relations
    if matrices.size(0) == relations:
        return relational_linear(h, split, matrices)
    *terms, total = transform(h, matrices).unflatten(1, (-1, relations)).flatten(2).unbind(1)
    for term in reversed(terms):
        total = torch.add(term, spread(whole, total), alpha=0.5)
    return relational_sum(total.unflatten(-1, (relations, -1)), split)
