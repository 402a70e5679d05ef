"""Networks for directed graphs: DiGCN, MagNet and FaberNet."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.dense import Linear

from graphprism._extras import needs_extra
from graphprism.nn.conv.relational_weight import RelationalWeight
from graphprism.ops import RelationalAdj, relational_linear
from graphprism.ops.dropout import dropout


class DiGCN(torch.nn.Module):
    r"""DiGCN (Tong et al., 2020) without inception blocks, with layers of PyTorch Geometric Signed Directed.

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
        with needs_extra("DiGCN"):
            from torch_geometric_signed_directed.nn.directed import DiGCNConv
        self.dropout = dropout
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.convs = torch.nn.ModuleList(DiGCNConv(i, o, cached=False) for i, o in pairwise(widths))

    @staticmethod
    def prepare(x: Tensor, edge_index: Tensor, dtype: torch.dtype, alpha: float = 0.1) -> tuple[Tensor, Tensor]:
        r"""Edges and coefficients of :math:`\hat{\mathbf{P}}`."""
        with needs_extra("DiGCN"):
            from torch_geometric_signed_directed.utils import cal_fast_appr
        edges, weight = cal_fast_appr(alpha, edge_index.cpu(), x.size(0), torch.float64)
        return edges.to(edge_index.device), weight.to(edge_index.device, dtype)

    def forward(self, x: Tensor, graph: tuple[Tensor, Tensor], generator: torch.Generator | None = None) -> Tensor:
        """One output row for every node."""
        h: Tensor = self.convs[0](x, *graph)
        for conv in self.convs[1:]:
            h = conv(dropout(h.relu(), self.dropout * self.training, generator), *graph)
        return h


class MagNet(torch.nn.Module):
    r"""MagNet (Zhang et al., 2021), with layers of PyTorch Geometric Signed Directed.

    .. math:: \mathbf{X}' = \sum_{k=0}^{K} T_k(\tilde{\mathbf{L}}) \mathbf{X} \mathbf{W}_k, \quad
        \mathbf{L} = \mathbf{I} - \mathbf{D}^{-1/2} \mathbf{A}_s \mathbf{D}^{-1/2} \odot
        \exp(2 \pi i q (\mathbf{A} - \mathbf{A}^\top))

    with complex states :math:`\mathbf{X}`, Chebyshev polynomials :math:`T_k`, the symmetric part :math:`\mathbf{A}_s`
    of the adjacency matrix, and :math:`\tilde{\mathbf{L}} = \mathbf{L} - \mathbf{I}`. Numbers with a negative real part
    are set to zero between layers. A linear map of the real and imaginary parts gives the output.

    Args:
        in_channels: size of a node feature.
        hidden_channels: width of the real and of the imaginary part.
        out_channels: size of an output row.
        num_layers: number of layers.
        dropout: share of channels dropped before the last map.
        q: :math:`q`, in [0, 0.25]; 0 is the undirected graph.
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
        q: float = 0.25,
        order: int = 2,
    ) -> None:
        super().__init__()
        with needs_extra("MagNet"):
            from torch_geometric_signed_directed.nn.directed import MagNetConv
        self.dropout = dropout
        widths = [in_channels, *[hidden_channels] * num_layers]
        # cached: the magnetic Laplacian depends on the graph only, which stays the same
        self.convs = torch.nn.ModuleList(MagNetConv(i, o, order, q, False, cached=True) for i, o in pairwise(widths))
        self.head = Linear(2 * hidden_channels, out_channels)

    @staticmethod
    def prepare(x: Tensor, edge_index: Tensor, dtype: torch.dtype) -> Tensor:
        """The edges, unchanged."""
        return edge_index

    def forward(self, x: Tensor, graph: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """One output row for every node."""
        real = imaginary = x
        for conv in self.convs:
            real, imaginary = conv(real, imaginary, graph)
            keep = real >= 0
            real, imaginary = keep * real, keep * imaginary
        h = torch.cat([real, imaginary], dim=-1)
        out: Tensor = self.head(dropout(h, self.dropout * self.training, generator))
        return out


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
        parts: tuple[Tensor, ...] = (x,)
        states: list[Tensor] = []
        for conv in self.convs:
            parts = tuple(self._activate(part, generator) for part in conv(parts, graph))
            states.append(torch.cat(parts, dim=-1))
        joined = torch.cat(states, dim=-1) if self.jk == "cat" else torch.stack(states).amax(dim=0)
        out: Tensor = self.head(joined)
        return out

    def _activate(self, h: Tensor, generator: torch.Generator | None) -> Tensor:
        h = h.abs() if self.activation == "abs" else h.relu()
        h = dropout(h, self.dropout * self.training, generator)
        return torch.nn.functional.normalize(h) if self.normalize else h


class _FaberLayer(torch.nn.Module):
    """One layer; inputs and outputs are the real part and, with complex weights, the imaginary part."""

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
        self.alpha, self.order = alpha, order
        ways = [way for way, share in (("out", alpha), ("in", 1 - alpha)) if share]

        def make() -> torch.nn.Module:
            return RelationalWeight(in_channels, out_channels, num_relations=num_relations, start=start, decay=decay)

        self.ways = torch.nn.ModuleDict(
            {way: torch.nn.ModuleList(make() for _ in range(order * (1 + complex))) for way in ways}
        )
        self.bias = torch.nn.Parameter(torch.zeros(1 + complex, out_channels))

    def forward(self, parts: tuple[Tensor, ...], graph: tuple[RelationalAdj, RelationalAdj]) -> list[Tensor]:
        found: list[Tensor | None] = [None for _ in self.bias]
        for way, weights in self.ways.items():
            # direction "out": node i receives from j for every edge i -> j
            split, whole = (each.transpose() if way == "out" else each for each in graph)
            share, states = self.alpha if way == "out" else 1 - self.alpha, parts
            for k in range(self.order):
                if k:
                    states = tuple(_moved(state, whole) for state in states)
                factor = share * 2.0**-k
                matrices = [weight(states[0]) for weight in weights[k :: self.order]]  # type: ignore[index]
                for number, term in enumerate(_product(states, matrices, split)):
                    before = found[number]
                    found[number] = factor * term if before is None else before + factor * term
        return [total + bias for total, bias in zip(found, self.bias, strict=True) if total is not None]


def _moved(state: Tensor, graph: RelationalAdj) -> Tensor:
    dense = state.to_dense() if state.layout == torch.sparse_csr else state
    return graph.relational_aggregate(dense).squeeze(1)


def _product(states: tuple[Tensor, ...], weights: list[Tensor], graph: RelationalAdj) -> list[Tensor]:
    """Real and imaginary part of the product of states and weights, each real or complex."""
    terms = [[relational_linear(state, graph, weight) for weight in weights] for state in states]
    if len(weights) == 1:
        return [terms[0][0]]
    if len(states) == 1:  # real features, complex weights
        return terms[0]
    return [terms[0][0] - terms[1][1], terms[0][1] + terms[1][0]]
