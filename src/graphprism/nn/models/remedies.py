"""Baselines: remedies against rank collapse other than a split, as deep stacks of PyG's layers and ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import AntiSymmetricConv, FAConv, GCN2Conv, GCNConv, PairNorm

from graphprism._checks import check_choice
from graphprism.nn.conv import MRSGCNConv
from graphprism.nn.models.baselines.gates import gradient_gate
from graphprism.nn.models.convolutions import Convolution, LayerOptions
from graphprism.nn.models.gnn import GNN, Members
from graphprism.ops import RelationalAdj, at_receivers, at_senders, edge_norm, entry_sum, relational_aggregate
from graphprism.ops.dropout import dropout, keep_mask


class _InitialResidual(GCN2Conv):  # type: ignore[misc]
    """PyG's layer on a prepared graph: sums over sorted edges give the same bits on a GPU, unlike atomic additions."""

    def forward(self, x: Tensor, first: Tensor, adj: RelationalAdj) -> Tensor:
        mixed = (1 - self.alpha) * _neighbour_sum(x, adj) + self.alpha * first
        return torch.addmm(mixed, mixed, self.weight1, beta=1 - self.beta, alpha=self.beta)


class _Frequencies(FAConv):  # type: ignore[misc]
    """PyG's layer on a prepared graph."""

    def forward(self, x: Tensor, first: Tensor, adj: RelationalAdj) -> Tensor:
        assert adj.edge_weight is not None  # coefficients of the normalised graph
        score = (at_senders(self.att_l(x), adj) + at_receivers(self.att_r(x), adj)).tanh().squeeze(1)
        out: Tensor = _neighbour_sum(x, adj.with_weight(score * adj.edge_weight)) + self.eps * first
        return out


class _Neighbours(GCNConv):  # type: ignore[misc]
    """PyG's layer on a prepared graph."""

    def forward(self, x: Tensor, adj: RelationalAdj) -> Tensor:
        return _neighbour_sum(self.lin(x), adj)


def _neighbour_sum(x: Tensor, adj: RelationalAdj) -> Tensor:
    return relational_aggregate(x, adj).squeeze(1)


def _pair_norm(x: Tensor, graphs: RelationalAdj) -> Tensor:
    """PyG's `PairNorm` over the nodes of each graph, with edges ``graphs`` from nodes to their graphs."""
    count = graphs.incoming.node_rowptr.diff().clamp(min=1)[:, None]

    def mean(rows: Tensor) -> Tensor:
        return at_receivers(entry_sum(rows, graphs) / count.to(rows.dtype), graphs)

    x = x - mean(x)
    return x / (1e-5 + mean(x.square().sum(-1, keepdim=True))).sqrt()


def _edges_to_graphs(members: Members) -> RelationalAdj:
    """An edge from every node to its graph; without the number of graphs a host-device sync."""
    owner, num_graphs = members
    count = int(owner.max()) + 1 if num_graphs is None else num_graphs
    edges = torch.stack([torch.arange(owner.numel(), device=owner.device), owner])
    return RelationalAdj.in_forward(edges, None, None, 1, (owner.numel(), count))


def _plain(width: int, layer: int, options: LayerOptions) -> torch.nn.Module:
    return _split(width, options) if options.num_relations > 1 else MRSGCNConv(width, width, num_relations=1)


def _split(width: int, options: LayerOptions, bias: bool = True) -> torch.nn.Module:
    return MRSGCNConv(width, width, bias=bias, **options.relational())


def _initial_residual(width: int, layer: int, options: LayerOptions) -> torch.nn.Module:
    return _InitialResidual(width, alpha=0.1, theta=0.5, layer=layer, normalize=False)


def _frequencies(width: int, layer: int, options: LayerOptions) -> torch.nn.Module:
    return _Frequencies(width, eps=0.3, normalize=False)


def _antisymmetric(width: int, layer: int, options: LayerOptions) -> torch.nn.Module:
    split = options.num_relations > 1
    inner = _split(width, options, bias=False) if split else _Neighbours(width, width, bias=False, normalize=False)
    conv: torch.nn.Module = AntiSymmetricConv(width, inner)
    return conv


# Layer factory of each remedy, from the width, the layer number, which starts at 1, and the options of the network.
REMEDIES: Mapping[str, Callable[[int, int, LayerOptions], torch.nn.Module]] = MappingProxyType(
    {
        "gcnii": _initial_residual,
        "pairnorm": _plain,
        "dropedge": _plain,
        "fagcn": _frequencies,
        "a-dgn": _antisymmetric,
        "g2": _plain,
    }
)
# Those with a graph convolution in every layer, which can have a matrix for each relation.
SPLITTABLE = ("pairnorm", "dropedge", "a-dgn", "g2")
# Its layers have no matrices: with the parameter budget of the others it would be thousands of channels wide.
WITHOUT_MATRICES = ("fagcn",)

_DROPPED_EDGES = 0.2
_GATE_EXPONENT = 2.0


def check_split(remedy: str, num_relations: object, options: Mapping[str, Any]) -> None:
    """Raises `ValueError` for a split that a network with this remedy cannot have."""
    if remedy not in SPLITTABLE and num_relations != 1:
        raise ValueError(f"`num_relations` must be 1 with {remedy}, which cannot be split, got {num_relations}")
    if not isinstance(num_relations, int):
        raise ValueError(f"`num_relations` must be one for all layers with the remedy {remedy}, got {num_relations}")
    for name, value in (("split_layers", "all"), ("learned_split", False)):
        if options.get(name, value) != value:
            raise ValueError(f"`{name}` must be {value!r} with the remedy {remedy}, got {options[name]!r}")


class RemedyGNN(GNN):
    r"""A `GNN` of graph convolutions with one remedy of other authors in every layer.

    With :math:`\hat{\mathbf{A}}` the symmetrically normalised graph, :math:`\mathbf{H}_0` the encoding,
    :math:`C(\mathbf{H}) = \hat{\mathbf{A}} \mathbf{H} \mathbf{W} + \mathbf{b}` and :math:`l` the number of the layer:

    =============  ===================================================================================================
    ``gcnii``      :math:`\operatorname{relu}\big((0.9 \hat{\mathbf{A}} \mathbf{H} + 0.1 \mathbf{H}_0)((1 - \beta_l)
                   \mathbf{I} + \beta_l \mathbf{W})\big)`, :math:`\beta_l = \log(0.5 / l + 1)`
    ``pairnorm``   :math:`\operatorname{relu}(\operatorname{PairNorm}(C(\mathbf{H})))` over the nodes of each graph
    ``dropedge``   :math:`\operatorname{relu}(C(\mathbf{H}))` without a fifth of the edges, drawn in every training step
                   for all layers, with the degrees of the remaining graph
    ``fagcn``      :math:`0.3 \mathbf{H}_0 + (\hat{\mathbf{A}} \odot \tanh(\mathbf{H} \mathbf{a} \oplus \mathbf{H}
                   \mathbf{b})) \mathbf{H}`, without matrices
    ``a-dgn``      :math:`\mathbf{H} + 0.1 \tanh(\mathbf{H} (\mathbf{V} - \mathbf{V}^\top - 0.1 \mathbf{I})^\top +
                   C(\mathbf{H}))`
    ``g2``         `GradientGating` with :math:`p = 2` and matrices of its own in every layer
    =============  ===================================================================================================

    With several relations :math:`C` is `MRSGCNConv`, with a matrix for each of them: a split under the remedy. GCNII
    and FAGCN, which have no :math:`C`, cannot be split.

    Args:
        remedy: one of the names above.
        hidden_channels: width of every layer.
        out_channels: size of an output row.
        num_layers: number of layers.
        num_relations: number of relations R of the graph.
        options: as in `GNN`, for encoder, readout, ``jk`` and the start of relations; there is always an encoder.

    Shapes: as `GNN`

    Example:
        >>> model = RemedyGNN("gcnii", 8, 3, num_layers=4, in_channels=5)
        >>> model(torch.randn(3, 5), torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
        torch.Size([3, 3])
    """

    def __init__(
        self,
        remedy: str,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        *,
        num_relations: int = 1,
        **options: Any,
    ) -> None:
        check_choice("remedy", remedy, tuple(REMEDIES))
        check_split(remedy, num_relations, options)
        layers = count(1)
        make = REMEDIES[remedy]
        conv = Convolution(remedy, lambda i, o, given: make(o, next(layers), given), relational=num_relations > 1)
        super().__init__(conv, hidden_channels, out_channels, num_layers, num_relations=num_relations, **options)
        self.remedy = remedy
        self._pair_norm = PairNorm()

    def run_layers(
        self,
        h: Tensor,
        e: Tensor | None,
        graph: Any,
        generator: torch.Generator | None = None,
        members: Members | None = None,
    ) -> list[Tensor]:
        """The states that jumping knowledge combines."""
        states: list[Tensor] = []
        first = h
        adj = self._weighted(graph, h, generator)
        plain = adj.with_weight(None)
        graphs = _edges_to_graphs(members) if self.remedy == "pairnorm" and members is not None else None
        for conv in self.convs:
            if self.remedy in ("gcnii", "fagcn"):
                h = conv(h, first, adj)
                h = h.relu() if self.remedy == "gcnii" else h
            elif self.remedy == "a-dgn":
                h = conv(h, adj)
            elif self.remedy == "pairnorm":
                new = conv(h, adj)
                h = (self._pair_norm(new) if graphs is None else _pair_norm(new, graphs)).relu()
            elif self.remedy == "g2":
                new = conv(h, adj).relu()
                h = torch.lerp(h, new, gradient_gate(new, plain, _GATE_EXPONENT))
            else:
                h = conv(h, adj).relu()
            h = dropout(h, self.dropout * self.training, generator)
            states = [*states, h] if self.jk == "cat" else [h]
        return states

    def _weighted(self, graph: RelationalAdj, h: Tensor, generator: torch.Generator | None) -> RelationalAdj:
        """The graph with its coefficients, zero for dropped edges; sorted once for all layers."""
        graph = graph if torch.compiler.is_compiling() else graph.prepare()
        if self.remedy == "dropedge" and self.training:
            kept = keep_mask(h.new_empty(graph.num_edges), _DROPPED_EDGES, generator).to(h.dtype)
            return graph.with_weight(edge_norm(graph.edge_index, graph.size, "sym", kept))
        return graph if graph.edge_weight is not None else graph.normalized("sym", h.dtype)
