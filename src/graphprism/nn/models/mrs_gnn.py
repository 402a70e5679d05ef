"""Encoder, convolutions, readout and head: the network of the paper's experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import BatchNorm, JumpingKnowledge
from torch_geometric.nn.dense import Linear
from torch_geometric.nn.resolver import aggregation_resolver, normalization_resolver

from graphprism._checks import check_positive
from graphprism.nn.conv import MRSGCNConv
from graphprism.nn.conv.operands import batch_norm, to_adj
from graphprism.nn.models.convolutions import make_conv
from graphprism.nn.models.type_encoder import TypeEncoder
from graphprism.ops import PaddedAdj, batched_linear, relational_stack


class MRSGNN(torch.nn.Module):
    r"""A deep graph network with any convolution of this package or its plain partner from PyG.

    The encoder turns node types or features into rows of ``hidden_channels``; every layer is a convolution, optionally
    a norm, ReLU and dropout, optionally plus its own input; the readout, if any, sums up each graph; a linear head
    follows.

    Args:
        conv: ``"mrs-gcn"``, ``"gcn"`` and so on (see `CONVOLUTIONS`), or a function of the width that makes one.
        hidden_channels: width of every layer.
        out_channels: size of an output row.
        num_layers: number of convolutions.
        num_relations: number of relations R, for MRS convolutions.
        in_channels: size of a node feature, ``-1`` to take it from the first input; unused with ``num_node_types``.
        num_node_types: nodes carry a type in [0, ``num_node_types``) instead of features; several numbers for several
            columns of types, whose embeddings are added.
        num_edge_types: edges carry a type, or several, for convolutions with edge features (GatedGCN).
        pe_channels: number of positional features that ``pe`` holds; they take the last channels of the encoding.
        residual: whether to add a layer's input to its output, after ReLU.
        jk: `None`, ``"cat"`` or ``"max"``: what to make of the outputs of all layers.
        norm: name of a PyG normalisation before ReLU (``"batch"``, ``"layer"``, ...), or `None`.
        dropout: share of channels dropped after ReLU in training.
        readout: `None` for one output row per node; else a PyG aggregation over each graph (``"sum"``, ``"mean"``,
            ...).

    Shapes: ``x`` (N, F) or types (N,) or (N, C), ``edge_index`` (2, E), ``edge_type`` (E,) or (E, R), ``edge_weight``
    (E,), ``edge_attr`` (E,) or (E, D) types, ``batch`` (N,), ``pe`` (N, K) -> (G, F_out), or (N, F_out) without
    readout; ``edge_index`` may be a `RelationalAdj` or a `PaddedAdj`.

    Example:
        >>> model = MRSGNN("mrs-gcn", 16, 1, num_layers=4, num_node_types=28, readout="sum")
        >>> edges, types = torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.tensor([0, 1, 2])
        >>> model(torch.tensor([5, 0, 3]), edges, types).shape
        torch.Size([1, 1])
    """

    def __init__(
        self,
        conv: str | Callable[[int], torch.nn.Module],
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        num_relations: int = 3,
        in_channels: int = -1,
        num_node_types: int | Sequence[int] | None = None,
        num_edge_types: int | Sequence[int] | None = None,
        pe_channels: int = 0,
        residual: bool = False,
        jk: str | None = None,
        norm: str | None = None,
        dropout: float = 0.0,
        readout: str | None = None,
    ) -> None:
        super().__init__()
        check_positive("num_layers", num_layers)
        if not 0 <= pe_channels < hidden_channels:
            raise ValueError(f"`pe_channels` must be in [0, {hidden_channels}), the width, got {pe_channels}")
        if jk not in (None, "cat", "max"):
            raise ValueError(f'`jk` must be None, "cat" or "max", got {jk!r}')
        edge_dim = hidden_channels if num_edge_types else None
        self.hidden_channels, self.residual, self.dropout, self.pe_channels = (
            hidden_channels,
            residual,
            dropout,
            pe_channels,
        )
        self.encoder = _encoder("x", in_channels, hidden_channels - pe_channels, num_node_types)
        convs = [make_conv(conv, hidden_channels, num_relations, edge_dim) for _ in range(num_layers)]
        self.convs = torch.nn.ModuleList(convs)
        uses_edges = getattr(convs[0], "edge_dim", None) is not None
        self.edge_encoder = _encoder("edge_attr", -1, hidden_channels, num_edge_types) if uses_edges else None
        norms = (None if norm is None else normalization_resolver(norm, hidden_channels) for _ in convs)
        self.norms = torch.nn.ModuleList(torch.nn.Identity() if each is None else each for each in norms)
        self.jk = None if jk is None else JumpingKnowledge(jk, hidden_channels, num_layers)
        self.readout = None if readout is None else aggregation_resolver(readout)
        self.head = _Head(hidden_channels * (num_layers if jk == "cat" else 1), out_channels)

    def reset_parameters(self) -> None:
        """Draws new weights in every part."""
        parts = (self.encoder, self.edge_encoder, *self.convs, *self.norms, self.head)
        for part in parts:
            getattr(part, "reset_parameters", lambda: None)()

    def forward(
        self,
        x: Tensor,
        edge_index: Any,
        edge_type: Tensor | None = None,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        pe: Tensor | None = None,
    ) -> Tensor:
        """Runs the whole network; see the class for shapes."""
        h = self._encode(x, pe)
        graph = self._graph(h, edge_index, edge_type, edge_weight)
        e = None if self.edge_encoder is None else self.edge_encoder(edge_attr)
        states = self._stack(h, graph) if self._is_stack(graph) else self._layers(h, e, graph)
        h = states[-1] if self.jk is None else self.jk(states)
        out: Tensor = self.head(h if self.readout is None else self.readout(h, batch))
        return out

    def _layers(self, h: Tensor, e: Tensor | None, graph: Any) -> list[Tensor]:
        """The states after each layer."""
        states = []
        for conv, norm in zip(self.convs, self.norms, strict=True):
            if e is None:
                new = conv(h, graph)
            else:
                new, new_e = conv(h, graph, edge_attr=e, return_edge_attr=True)
                e = new_e.relu() + e if self.residual else new_e.relu()
            new = self._normalise(norm, new, graph).relu()
            new = torch.nn.functional.dropout(new, self.dropout, self.training) if self.dropout else new
            h = h + new if self.residual else new
            states.append(h)
        return states

    @staticmethod
    def _normalise(norm: torch.nn.Module, x: Tensor, graph: Any) -> Tensor:
        if isinstance(graph, PaddedAdj) and isinstance(norm, BatchNorm):
            return batch_norm(norm.module, x, graph.node_mask)
        out: Tensor = norm(x)
        return out

    def _is_stack(self, graph: Any) -> bool:
        """Whether the layers are what `relational_stack` does at once."""
        plain = not self.dropout and all(isinstance(norm, torch.nn.Identity) for norm in self.norms)
        return isinstance(graph, PaddedAdj) and plain and all(_is_plain_gcn(conv) for conv in self.convs)

    def _stack(self, h: Tensor, graph: PaddedAdj) -> list[Tensor]:
        convs = [conv for conv in self.convs if isinstance(conv, MRSGCNConv)]
        weights = [conv.lin.weight for conv in convs]
        biases = [conv.bias for conv in convs if conv.bias is not None]
        return list(relational_stack(h, graph.normalized("sym"), weights, biases, self.residual))

    def _encode(self, x: Tensor, pe: Tensor | None) -> Tensor:
        h: Tensor = self.encoder(x)
        if (pe is None) != (self.pe_channels == 0) or (pe is not None and pe.size(-1) != self.pe_channels):
            came = None if pe is None else list(pe.shape)
            raise ValueError(f"`pe` must have {self.pe_channels} channels (None for none), got {came}")
        return h if pe is None else torch.cat([h, pe.to(h.dtype)], dim=-1)

    def _graph(self, h: Tensor, edge_index: Any, edge_type: Tensor | None, edge_weight: Tensor | None) -> Any:
        """The graph in the form that the convolutions take; one `RelationalAdj` for all MRS layers."""
        num_relations = getattr(self.convs[0], "num_relations", None)
        if num_relations is None:  # a convolution of the user's own
            if edge_weight is not None:
                raise ValueError("`edge_weight` must be None with a convolution that has no relations, got a tensor")
            return getattr(edge_index, "edge_index", edge_index)
        if num_relations == 1:  # a plain convolution takes a graph that was split as if it was not
            edge_type = None
            if getattr(edge_index, "num_relations", 1) > 1:
                edge_index, edge_weight = edge_index.edge_index, edge_index.edge_weight
        return to_adj(h, edge_index, edge_type, edge_weight, num_relations)


class _Head(Linear):  # type: ignore[misc]
    """PyG's linear layer, where many runs at once take one kernel each way."""

    def forward(self, x: Tensor) -> Tensor:
        return batched_linear(x, self.weight, self.bias)


def _is_plain_gcn(conv: torch.nn.Module) -> bool:
    return isinstance(conv, MRSGCNConv) and conv.normalize is None and conv.bias is not None


def _encoder(name: str, in_channels: int, channels: int, types: int | Sequence[int] | None) -> torch.nn.Module:
    if types is None:
        linear: torch.nn.Module = Linear(in_channels, channels)
        return linear
    return TypeEncoder(name, [types] if isinstance(types, int) else types, channels)
