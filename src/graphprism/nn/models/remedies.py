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
from graphprism.nn.models.convolutions import Convolution
from graphprism.nn.models.gnn import GNN
from graphprism.ops import RelationalAdj, edge_norm
from graphprism.ops.dropout import dropout, keep_mask


def _plain(width: int, layer: int) -> torch.nn.Module:
    return MRSGCNConv(width, width, num_relations=1)


def _initial_residual(width: int, layer: int) -> torch.nn.Module:
    conv: torch.nn.Module = GCN2Conv(width, alpha=0.1, theta=0.5, layer=layer, normalize=False)
    return conv


def _frequencies(width: int, layer: int) -> torch.nn.Module:
    conv: torch.nn.Module = FAConv(width, eps=0.3, normalize=False)
    return conv


def _antisymmetric(width: int, layer: int) -> torch.nn.Module:
    conv: torch.nn.Module = AntiSymmetricConv(width, GCNConv(width, width, bias=False, normalize=False))
    return conv


# Layer factory of each remedy, from the width and the layer number, which starts at 1.
REMEDIES: Mapping[str, Callable[[int, int], torch.nn.Module]] = MappingProxyType(
    {
        "gcnii": _initial_residual,
        "pairnorm": _plain,
        "dropedge": _plain,
        "fagcn": _frequencies,
        "a-dgn": _antisymmetric,
        "g2": _plain,
    }
)
# Its layers have no matrices: with the parameter budget of the others it would be thousands of channels wide.
WITHOUT_MATRICES = ("fagcn",)

_DROPPED_EDGES = 0.2
_GATE_EXPONENT = 2.0


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

    Args:
        remedy: one of the names above.
        hidden_channels: width of every layer.
        out_channels: size of an output row.
        num_layers: number of layers.
        options: as in `GNN`, for encoder, readout and ``jk``; there is always an encoder.

    Shapes: as `GNN`

    Example:
        >>> model = RemedyGNN("gcnii", 8, 3, num_layers=4, in_channels=5)
        >>> model(torch.randn(3, 5), torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
        torch.Size([3, 3])
    """

    def __init__(self, remedy: str, hidden_channels: int, out_channels: int, num_layers: int, **options: Any) -> None:
        check_choice("remedy", remedy, tuple(REMEDIES))
        layers = count(1)
        conv = Convolution(remedy, lambda i, o, _: REMEDIES[remedy](o, next(layers)))
        super().__init__(conv, hidden_channels, out_channels, num_layers, **options)
        self.remedy = remedy
        self._pair_norm = PairNorm()
        self._owner: Tensor | None = None
        self._num_graphs: int | None = None

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Runs the whole network; see `GNN`."""
        self._owner, self._num_graphs = kwargs.get("batch"), kwargs.get("batch_size")  # `PairNorm` works per graph
        try:
            return super().forward(*args, **kwargs)
        finally:
            self._owner = self._num_graphs = None

    def run_layers(
        self, h: Tensor, e: Tensor | None, graph: Any, generator: torch.Generator | None = None
    ) -> list[Tensor]:
        """The states that jumping knowledge combines."""
        states: list[Tensor] = []
        first = h
        adj = self._weighted(graph, h, generator)
        edges = adj.edge_index.long(), adj.edge_weight
        for conv in self.convs:
            if self.remedy == "gcnii":
                h = conv(h, first, *edges).relu()
            elif self.remedy == "fagcn":
                h = conv(h, first, *edges)
            elif self.remedy == "a-dgn":
                h = conv(h, *edges)
            elif self.remedy == "pairnorm":
                h = self._pair_norm(conv(h, adj), self._owner, self._num_graphs).relu()
            elif self.remedy == "g2":
                new = conv(h, adj).relu()
                h = torch.lerp(h, new, gradient_gate(new, adj.with_weight(None), _GATE_EXPONENT))
            else:
                h = conv(h, adj).relu()
            h = dropout(h, self.dropout * self.training, generator)
            states = [*states, h] if self.jk == "cat" else [h]
        return states

    def _weighted(self, graph: RelationalAdj, h: Tensor, generator: torch.Generator | None) -> RelationalAdj:
        """The graph with its coefficients; zero for dropped edges."""
        if self.remedy == "dropedge" and self.training:
            kept = keep_mask(h.new_empty(graph.num_edges), _DROPPED_EDGES, generator).to(h.dtype)
            return graph.with_weight(edge_norm(graph.edge_index, graph.size, "sym", kept))
        return graph if graph.edge_weight is not None else graph.normalized("sym", h.dtype)
