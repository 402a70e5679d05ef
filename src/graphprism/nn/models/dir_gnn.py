"""A network for the nodes of one graph, directed or not: convolutions, jumping knowledge and head."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.dense import Linear

from graphprism._checks import check_positive
from graphprism.nn.conv import DirConv, MRSGCNConv
from graphprism.nn.conv.operands import is_watched, to_adj
from graphprism.nn.models.larger import larger
from graphprism.nn.models.node_convolutions import make_node_conv, relations_of_conv
from graphprism.ops.dropout import dropout, keep_mask
from graphprism.ops.relu_normalize import relu_normalize


class DirGNN(torch.nn.Module):
    r"""Dir-GNN with any convolution of `NODE_CONVOLUTIONS`: plain or MRS, along the edges or in both directions.

    Every layer is a convolution, ReLU, dropout and, with ``normalize``, a division of each row by its length. With
    ``jk`` the outputs of all layers are joined and a linear map follows; without it the last convolution gives the
    output as it is. All layers share one prepared graph, and both directions share the relations of the original one.

    Args:
        conv: a name of `NODE_CONVOLUTIONS`; ``"mlp"`` takes no graph.
        in_channels: size of a node feature, ``-1`` to take it from the first input.
        hidden_channels: width of every layer.
        out_channels: size of an output row.
        num_layers: number of convolutions.
        num_relations: number of relations R, for MRS convolutions.
        alpha: share of the nodes that a node points to, for directed convolutions.
        jk: `None`, ``"cat"`` or ``"max"``: what to make of the outputs of all layers.
        normalize: whether to scale the rows of every layer's output to length one.
        dropout: share of channels dropped after ReLU in training.
        share_init: all relations of a layer start from the same weights.

    Shapes: ``x`` (N, F), ``edge_index`` (2, E), ``edge_type`` (E,) or (E, R), ``edge_weight`` (E,) -> (N, F_out);
    ``edge_index`` may be a `RelationalAdj`. A generator, where it is given, decides what is dropped.

    Example:
        >>> model = DirGNN("mrs-dir-gcn", 8, 16, 5, num_layers=4, jk="max", normalize=True)
        >>> edges, types = torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.tensor([0, 1, 2])
        >>> model(torch.randn(3, 8), edges, types).shape
        torch.Size([3, 5])
    """

    def __init__(
        self,
        conv: str,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        num_relations: int = 3,
        alpha: float = 0.5,
        jk: str | None = None,
        normalize: bool = False,
        dropout: float = 0.0,
        share_init: bool = False,
    ) -> None:
        super().__init__()
        check_positive("num_layers", num_layers)
        if jk not in (None, "cat", "max"):
            raise ValueError(f'`jk` must be None, "cat" or "max", got {jk!r}')
        self.conv, self.jk, self.normalize, self.dropout = conv, jk, normalize, dropout
        self.num_relations = relations_of_conv(conv, num_relations)
        last = out_channels if jk is None else hidden_channels
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), last]
        made = (make_node_conv(conv, *sizes, num_relations, alpha, share_init) for sizes in pairwise(widths))
        self.convs = torch.nn.ModuleList(made)
        joined = hidden_channels * (num_layers if jk == "cat" else 1)
        self.head = None if jk is None else Linear(joined, out_channels)

    def reset_parameters(self) -> None:
        """Draws new weights in every part."""
        for part in (*self.convs, self.head):
            if part is not None:
                part.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Any = None,
        edge_type: Tensor | None = None,
        edge_weight: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Runs the whole network; see the class for shapes."""
        graph = self._graph(x, edge_index, edge_type, edge_weight)
        h = x
        largest: Tensor | None = None
        states: list[Tensor] = []
        for conv in self.convs if self.head is not None else self.convs[:-1]:
            h, largest = self._layer(conv, h, graph, largest if self.jk == "max" else None, generator)
            states = [*states, h] if self.jk == "cat" else []
        out: Tensor
        if self.head is None:
            out = self.convs[-1](h, *graph)
        else:
            out = self.head(torch.cat(states, dim=-1) if states else largest)
        return out

    def _layer(
        self,
        conv: torch.nn.Module,
        h: Tensor,
        graph: list[Any],
        largest: Tensor | None,
        generator: torch.Generator | None,
    ) -> tuple[Tensor, Tensor]:
        """The state after a layer, and the larger of it and ``largest``, taken at once: no layer is kept for it."""
        if not self.normalize:
            h = self._drop(conv(h, *graph), generator).relu()
            return h, h if largest is None else larger(largest, h)
        in_parts = isinstance(conv, DirConv | MRSGCNConv) and not is_watched(conv)
        first, second, bias = conv.summands(h, *graph) if in_parts else (conv(h, *graph), None, None)  # type: ignore
        kept = self._kept(first, generator)
        return relu_normalize(first, second, bias, kept=kept, largest=largest, overwrite=in_parts)

    def _graph(self, x: Tensor, edge_index: Any, edge_type: Tensor | None, edge_weight: Tensor | None) -> list[Any]:
        """What the convolutions take beside their input: nothing, or one `RelationalAdj` for all of them."""
        if self.conv == "mlp":
            return []
        if edge_index is None:
            raise ValueError(f"`edge_index` must be given with {self.conv}, got None")
        types = edge_type if self.num_relations > 1 else None  # a plain layer takes a split graph as if it was not
        return [to_adj(x, edge_index, types, edge_weight, self.num_relations)]

    def _kept(self, h: Tensor, generator: torch.Generator | None) -> Tensor | None:
        """What dropout leaves; before ReLU it is the same as after it, and there it is one step with others."""
        return keep_mask(h, self.dropout, generator) if self.training and self.dropout else None

    def _drop(self, h: Tensor, generator: torch.Generator | None) -> Tensor:
        return dropout(h, self.dropout, generator) if self.training and self.dropout else h
