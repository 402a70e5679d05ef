"""A deep graph network: encoder, convolutions, jumping knowledge, readout and head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import cycle, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn import BatchNorm, JumpingKnowledge
from torch_geometric.nn.dense import Linear

from graphprism._checks import (
    check_floating,
    check_integer,
    check_range,
    check_same_device,
    check_shape,
    check_tensor,
    check_type,
)
from graphprism.nn.conv import DirConv, LearnedSplit, MRSGCNConv
from graphprism.nn.conv.operands import (
    batch_norm,
    check_features,
    has_hooks,
    linear,
    resolved_aggregation,
)
from graphprism.nn.conv.relational_weight import DECAY
from graphprism.nn.models.blocks import ACTIVATIONS, FeedForward, Head, WalkEncoder, drop
from graphprism.nn.models.convolutions import Convolution, returns_edge_attr
from graphprism.nn.models.deep_set import DeepSetPE
from graphprism.nn.models.gnn_options import (
    check_encoders,
    check_jk,
    check_layers,
    check_pe_channels,
    check_sizes,
    check_types,
    find_convolution,
    resolved_norm,
    splits_of,
    takes_batch,
)
from graphprism.nn.models.graph_arguments import GraphArguments
from graphprism.nn.models.sampled_hops import SampledHops
from graphprism.nn.models.type_encoder import TypeEncoder
from graphprism.ops import RelationalAdj
from graphprism.ops.backends import is_transformed
from graphprism.ops.dropout import keep_mask
from graphprism.ops.relu_normalize import larger, relu_normalize


class Members(NamedTuple):
    """The graph of every node (N,), and the number of graphs if known."""

    batch: Tensor
    batch_size: int | None


class GNN(torch.nn.Module):
    r"""A deep network for graphs or nodes, directed or not, with any convolution of `CONVOLUTIONS` or your own.

    Every layer is a convolution, optionally a norm, dropout, ReLU, with ``normalize`` L2 normalisation of each row,
    with ``residual`` the addition of its input, and with ``ffn`` a feed-forward block. ``jk`` combines the states of
    all layers; the readout, if any, aggregates each graph; a head of one or more linear maps gives the output.

    Convolutions ``"gcne"``, ``"gine"`` and ``"gated-gcn"`` with batch norm, ``ffn``, ``residual``, dropout and
    ``pe_encoder="walk"`` are GCN+, GIN+ and GatedGCN+ (Luo et al., 2025).

    With ``encode`` an encoder first maps node types or features to ``hidden_channels``, the width of all layers.
    Without it the first convolution takes the features themselves; if also ``jk`` is `None`, the last convolution gives
    the output, without activation and head.

    Args:
        conv: ``"mrs-gcn"``, ``"dir-sage"`` and so on (see `CONVOLUTIONS`), a `Convolution`, or a function of the output
            width that makes a layer (with ``encode=False`` one that takes its input width from the first input).
        hidden_channels: width of every layer.
        out_channels: size of an output row.
        num_layers: number of convolutions.
        in_channels: size of a node feature, ``-1`` to take it from the first input; unused with ``num_node_types``.
        num_relations: number of relations R, for relational convolutions; several numbers if layers have different
            splits, repeated cyclically if there are more layers.
        num_node_types: nodes carry a type in [0, ``num_node_types``) instead of features; several numbers for several
            columns of types, whose embeddings are added.
        num_edge_types: edges carry a type, or several, for convolutions with edge features (GatedGCN).
        pe_channels: number of positional features, the last channels of the encoding.
        pe_encoder: `None` uses ``pe`` (N, K) unchanged; ``"deepset"`` encodes the pairs of
            `graphprism.transforms.LaplacianSpectrum`, (N, M, 2) for any M, by `DeepSetPE`; ``"walk"`` encodes the
            output of `graphprism.transforms.RandomWalkPE` by a batch norm and a linear map.
        walk_steps: longest walk, the number of columns of ``pe``, with ``pe_encoder="walk"``.
        edge_walks: whether to add a linear map of ``edge_pe`` (from the same transform) to the edge features.
        type_start: initialisation of type embeddings: ``"normal"`` as in PyTorch's embedding, ``"glorot"`` with
            Glorot's uniform distribution, separately for each column of types.
        encode: whether an encoder precedes the first convolution.
        residual: whether to add a layer's input to its output, after ReLU, if both have the same width.
        edge_residual: whether to do so for the states of edges only, as the authors of the paper do in GatedGCN;
            ``residual`` includes it.
        edge_dropout: whether ``dropout`` also applies to the states of edges, if the convolution updates them.
        ffn: whether every layer ends in a feed-forward block with two batch norms, see `FeedForward`.
        activation: of every layer, after the norm: ``"relu"`` or ``"gelu"``; also in feed-forward blocks.
        split_layers: which layers are relational: ``"all"``; ``"early"``, the first half (rounded up); ``"late"``, the
            others. The remaining layers are the plain convolution.
        jk: `None` for the last state, ``"cat"`` or ``"max"`` over the states of all layers, ``"lstm"`` for a mean with
            weights from an LSTM for each node, as in PyG's ``JumpingKnowledge``.
        norm: name of a PyG normalisation before ReLU (``"batch"``, ``"layer"``, ...), or `None`. Those that take
            ``batch`` normalise every graph by itself.
        normalize: whether to L2-normalise the rows of every layer's output.
        dropout: share of channels dropped in training.
        alpha: weight of the messages from nodes that a node points to, for directed convolutions.
        start: ``"shared"`` starts as the network with the plain convolution; ``"independent"``, as in the paper, with
            independently drawn weights for each relation.
        decay: how strongly a shared start ties the relations to their common weights, 0 for not at all.
        deviation: differences between relations, ``"full"`` or ``"diagonal"`` matrices, see `RelationalParameter`.
        weight_init: `None` for the initialisation of PyG's layer, ``"glorot"`` for Glorot's in all matrices of
            (MRS-)SAGE, as the authors of the paper do in MRS-SAGE; other layers ignore it.
        learned_split: whether relation scores are trained with the network, starting from the given split: one
            `LearnedSplit` of the first convolution's input, for all layers; for relational convolutions.
        readout: `None` for one output row per node; else a PyG aggregation over each graph (``"sum"``, ``"mean"``,
            ...).
        head_layers: number of linear maps of the head.
        head: widths of a head of several maps, see `Head`: ``"halving"`` or ``"constant"``.
        head_activation: between the maps of the head: ``"relu"`` or ``"gelu"``.

    Shapes: ``x`` (N, F) or types (N,) or (N, C), ``edge_index`` (2, E), ``edge_type`` (E,) or (E, R), ``edge_weight``
    (E,), ``edge_attr`` (E,) or (E, D) types, ``batch`` (N,), ``pe`` (N, K) or (N, M, 2), ``edge_pe`` (E, K) ->
    (G, F_out), or (N, F_out) without readout; ``edge_index`` may be a `RelationalAdj` or a `PaddedAdj`. If layers have
    different splits, ``edge_type`` is a list of as many, or ``edge_index`` a list of `RelationalAdj`. Dropout and the
    signs of eigenvectors are drawn from ``generator`` if given.

    Example:
        >>> model = GNN("mrs-gcn", 16, 1, num_layers=4, num_node_types=28, readout="sum")
        >>> edges, types = torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.tensor([0, 1, 2])
        >>> model(torch.tensor([5, 0, 3]), edges, types).shape
        torch.Size([1, 1])
        >>> model = GNN("mrs-dir-gcn", 16, 5, num_layers=4, in_channels=8, encode=False, jk="max", normalize=True)
        >>> model(torch.randn(3, 8), edges, types).shape
        torch.Size([3, 5])
    """

    def __init__(
        self,
        conv: str | Convolution | Callable[[int], torch.nn.Module],
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        *,
        in_channels: int = -1,
        num_relations: int | Sequence[int] = 3,
        num_node_types: int | Sequence[int] | None = None,
        num_edge_types: int | Sequence[int] | None = None,
        pe_channels: int = 0,
        pe_encoder: str | None = None,
        walk_steps: int = 0,
        edge_walks: bool = False,
        type_start: str = "normal",
        encode: bool = True,
        residual: bool = False,
        edge_residual: bool = False,
        edge_dropout: bool = False,
        ffn: bool = False,
        activation: str = "relu",
        split_layers: str = "all",
        jk: str | None = None,
        norm: str | None = None,
        normalize: bool = False,
        dropout: float = 0.0,
        alpha: float = 0.5,
        start: str = "shared",
        decay: float = DECAY,
        deviation: str = "full",
        weight_init: str | None = None,
        learned_split: bool = False,
        readout: str | None = None,
        head_layers: int = 1,
        head: str = "halving",
        head_activation: str = "relu",
    ) -> None:
        super().__init__()
        check_sizes(hidden_channels, out_channels, num_layers, in_channels, num_relations)
        flags = {"encode": encode, "residual": residual, "normalize": normalize, "ffn": ffn}
        flags |= {"edge_dropout": edge_dropout, "edge_walks": edge_walks, "learned_split": learned_split}
        check_layers(
            flags,
            dropout=dropout,
            alpha=alpha,
            activation=activation,
            split_layers=split_layers,
            head=head,
            head_layers=head_layers,
            head_activation=head_activation,
        )
        check_types("num_node_types", num_node_types)
        check_types("num_edge_types", num_edge_types)
        check_pe_channels(pe_channels, hidden_channels)
        check_jk(jk)
        check_encoders(
            encode=encode,
            num_node_types=num_node_types,
            num_edge_types=num_edge_types,
            pe_channels=pe_channels,
            pe_encoder=pe_encoder,
            walk_steps=walk_steps,
            edge_walks=edge_walks,
        )
        self.hidden_channels, self.pe_channels = hidden_channels, pe_channels
        self.residual, self.jk, self.normalize, self.dropout = residual, jk, normalize, dropout
        self.edge_residual, self.edge_dropout = residual or edge_residual, edge_dropout
        self.activation, self.split_layers = activation, split_layers
        encoded = hidden_channels - pe_channels
        self.encoder = _encoder("x", in_channels, encoded, num_node_types, type_start) if encode else None
        headless = not encode and jk is None
        last = out_channels if headless else hidden_channels
        widths = [hidden_channels if encode else in_channels, *[hidden_channels] * (num_layers - 1), last]
        known = find_convolution(conv)
        options: dict[str, Any] = {
            "edge_dim": hidden_channels if num_edge_types else None,
            "alpha": alpha,
            "start": start,
            "decay": decay,
            "deviation": deviation,
            "weight_init": weight_init,
        }
        relations = [num_relations] if isinstance(num_relations, int) else list(num_relations)
        is_ours = isinstance(known, Convolution) and known.edge_norm is not None
        if split_layers != "all" and not (isinstance(num_relations, int) and is_ours):
            must = '`split_layers` must be "all" for custom layers, those of PyG, or several splits'
            raise ValueError(f"{must}, got {split_layers!r}")
        splits = splits_of(split_layers, num_layers)
        layers = [
            known.make(i, o, num_relations=count if splits_here else 1, **options)
            if isinstance(known, Convolution)
            else known(o)
            for (i, o), count, splits_here in zip(pairwise(widths), cycle(relations), splits, strict=False)
        ]
        check_type("conv", layers[0], torch.nn.Module, "a function of the width that makes a layer")
        self.convs = torch.nn.ModuleList(layers)
        self.graph_arguments = taken = GraphArguments.of(known, layers[0], num_relations)
        self.num_relations = taken.relations[0]
        self.updates_edges = returns_edge_attr(layers[0])
        if learned_split and (not taken.relational or not taken.takes_prepared or taken.has_splits):
            raise ValueError("`learned_split` must be False unless all layers are ours and take one split, got True")
        self.learned_split = LearnedSplit(widths[0], self.num_relations) if learned_split else None
        uses_edges = getattr(layers[0], "edge_dim", None) is not None
        self.edge_encoder: torch.nn.Module | None = None
        if uses_edges:
            self.edge_encoder = _encoder("edge_attr", -1, hidden_channels, num_edge_types, type_start)
        self.walk_encoder = Linear(walk_steps, hidden_channels) if uses_edges and edge_walks else None
        self.norms = torch.nn.ModuleList(resolved_norm(norm, hidden_channels) for _ in layers[headless:])
        self.norm_is_by_graph = any(map(takes_batch, self.norms))
        self.readout = None if readout is None else resolved_aggregation("readout", readout)
        self.jumping = JumpingKnowledge("lstm", hidden_channels, num_layers) if jk == "lstm" else None
        joined = hidden_channels * (num_layers if jk == "cat" else 1)
        self.head: torch.nn.Module | None = None
        if not headless and head_layers == 1:
            self.head = self.make_head(joined, out_channels)
        elif not headless:
            self.head = Head(joined, out_channels, head_layers, head, head_activation, dropout, self.make_head)
        self.ffns: torch.nn.ModuleList | None = None
        if ffn:
            blocks = (FeedForward(hidden_channels, activation, dropout, self.make_head) for _ in self.norms)
            self.ffns = torch.nn.ModuleList(blocks)
        self.pe_encoder: torch.nn.Module | None = None
        if pe_encoder is not None:
            is_walk = pe_encoder == "walk"
            self.pe_encoder = WalkEncoder(walk_steps, pe_channels) if is_walk else DeepSetPE(pe_channels)

    def make_head(self, in_channels: int, out_channels: int) -> torch.nn.Module:
        """A linear map of the head or of a feed-forward block; subclasses may override it, with the same parameters."""
        head: torch.nn.Module = Linear(in_channels, out_channels)
        return head

    def reset_parameters(self) -> None:
        """Draws new weights in every part."""
        blocks = (*self.convs, *self.norms, *(self.ffns or ()))
        encoders = (self.encoder, self.edge_encoder, self.walk_encoder, self.learned_split)
        parts = (*encoders, *blocks, self.head, self.pe_encoder, self.jumping)
        for part in parts:
            getattr(part, "reset_parameters", lambda: None)()

    def forward(
        self,
        x: Tensor,
        edge_index: Any = None,
        edge_type: Tensor | None = None,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        pe: Tensor | None = None,
        generator: torch.Generator | None = None,
        edge_pe: Tensor | None = None,
        num_sampled_nodes_per_hop: Sequence[int] | None = None,
        num_sampled_edges_per_hop: Sequence[int] | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """Runs the whole network; see the class for shapes.

        With the numbers of nodes and edges per hop of a neighbour sampler, each layer computes only the rows that seed
        nodes depend on, and there is an output row for every seed node. ``batch_size`` is the number of graphs; without
        it a readout takes it from the largest entry of ``batch``, which is a host-device sync.
        """
        if generator is not None:
            check_type("generator", generator, torch.Generator, "a torch.Generator")
        h = self._encode(x, pe, generator, getattr(edge_index, "node_mask", None))
        graph = self.graph_arguments(h, edge_index, edge_type, edge_weight)
        graph = graph if self.learned_split is None else self._scored(h, graph)
        if self.graph_arguments.relational and self.split_layers != "all":
            graph = [graph if here else graph.merged() for here in splits_of(self.split_layers, len(self.convs))]
        e = self._encode_edges(edge_attr, edge_pe)
        first = graph[0] if isinstance(graph, list) else graph
        if isinstance(first, RelationalAdj) and e is not None and e.size(0) != first.num_edges:
            raise ValueError(f"`edge_attr` must have {first.num_edges} rows, one for every edge, got {e.size(0)}")
        members = None
        if batch is not None:
            _check_batch(batch, h)
            members = Members(batch, batch_size)
        if num_sampled_nodes_per_hop is not None or num_sampled_edges_per_hop is not None:
            if self.readout is not None or not self.graph_arguments.takes_graph:
                must = "must be None in a network with a readout or without a graph"
                raise ValueError(f"`num_sampled_nodes_per_hop` {must}")
            hops = SampledHops(num_sampled_nodes_per_hop, num_sampled_edges_per_hop, len(self.convs))
            h = self._join(self._run_layers(h, e, graph, generator, members, hops))
        else:
            h = self._join(self.run_layers(h, e, graph, generator, members))
        if self.readout is not None:
            h = self.readout(h, batch) if batch_size is None else self.readout(h, batch, dim_size=batch_size)
        if self.head is None:
            return h
        out: Tensor = self.head(h, generator) if isinstance(self.head, Head) else self.head(h)
        return out

    def run_layers(
        self,
        h: Tensor,
        e: Tensor | None,
        graph: Any,
        generator: torch.Generator | None = None,
        members: Members | None = None,
    ) -> list[Tensor]:
        """The states that jumping knowledge combines; subclasses may override how they are computed.

        With ``jk="cat"`` or ``"lstm"`` these are the states after every layer. Otherwise the last state, or the maximum
        of all, is enough: earlier states are then not kept in memory.
        """
        return self._run_layers(h, e, graph, generator, members)

    def _run_layers(
        self,
        h: Tensor,
        e: Tensor | None,
        graph: Any,
        generator: torch.Generator | None,
        members: Members | None,
        hops: SampledHops | None = None,
    ) -> list[Tensor]:
        """`run_layers` that drops, with ``hops``, layer by layer the states that no seed node depends on."""
        states: list[Tensor] = []
        largest: Tensor | None = None
        graphs, left = graph if isinstance(graph, list) else [graph], len(self.convs)
        # lists: torch 2.6 cannot compile `cycle`
        ffns = [None] * left if self.ffns is None else self.ffns
        owns = [graphs[number % len(graphs)] for number in range(left)]
        # without a head the last layer has no norm
        for conv, norm, ffn, own in zip(self.convs, self.norms, ffns, owns, strict=False):
            if hops is not None:
                h, e, own = hops.within(left, h, e, own)
                largest = None if largest is None else largest[: h.size(0)]
            h, e, largest = self._layer(conv, norm, ffn, h, e, own, largest, generator, members)
            states = [*states, h] if self.jk in ("cat", "lstm") else [h if self.jk is None else largest]
            left -= 1
        if self.head is None:
            last = graphs[(len(self.convs) - 1) % len(graphs)]
            h, e, last = (h, e, last) if hops is None else hops.within(1, h, e, last)
            states = [self._convolve(self.convs[-1], h, e, last)[0]]
        return states if hops is None else [state[: hops.num_seeds] for state in states]

    def _layer(
        self,
        conv: torch.nn.Module,
        norm: torch.nn.Module,
        ffn: torch.nn.Module | None,
        h: Tensor,
        e: Tensor | None,
        graph: Any,
        largest: Tensor | None,
        generator: torch.Generator | None,
        members: Members | None,
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """The state after a layer, its edge features, and the maximum of the state and ``largest``, if that is used."""
        second = bias = None
        # a tuple: torch 2.6 cannot compile `isinstance` with a union
        is_linear = self.normalize and isinstance(norm, torch.nn.Identity) and isinstance(conv, (DirConv, MRSGCNConv))
        in_parts = is_linear and not has_hooks(conv)
        node_mask = getattr(graph, "node_mask", None)
        if in_parts:
            new, second, bias = conv.summands(h, graph)  # type: ignore[operator]
        else:
            new, e = self._convolve(conv, h, e, graph, generator)
        members = members if self.norm_is_by_graph else None
        added = h if self.residual and h.shape == new.shape else None
        drops = self.training and self.dropout > 0
        if self.activation == "relu" and not (self.normalize or drops):
            new = _normalise(norm, new, node_mask, members, relu=True, added=added)
        else:
            new = _normalise(norm, new, node_mask, members)
            if self.normalize:
                # addition, dropout, ReLU, normalisation and maximum are one kernel
                before = largest if self.jk == "max" and not self.residual else None
                kept = keep_mask(new, self.dropout, generator) if drops else None
                new, found = relu_normalize(new, second, bias, kept=kept, largest=before, overwrite=in_parts)
                if before is not None:
                    return new, e, found
            else:
                new = self._activate(new, generator)
            new = new if added is None else added + new
        if ffn is not None:
            new = ffn(new, node_mask, generator)
        return new, e, new if largest is None or self.jk != "max" else larger(largest, new)

    def _activate(self, new: Tensor, generator: torch.Generator | None) -> Tensor:
        """The activation and dropout, in training."""
        drops = self.training and self.dropout > 0
        if self.activation == "relu":
            # dropout commutes with ReLU, and before it autograd saves one tensor less
            return (drop(new, self.dropout, generator) if drops else new).relu()
        new = ACTIVATIONS[self.activation](new)
        return drop(new, self.dropout, generator) if drops else new

    def _convolve(
        self,
        conv: torch.nn.Module,
        h: Tensor,
        e: Tensor | None,
        graph: Any,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """One convolution, and the edge features for the next."""
        args = graph if isinstance(graph, tuple) else (graph,)
        if e is None:
            return conv(h, *args), None
        if not self.updates_edges:
            return conv(h, *args, edge_attr=e), e
        new, new_e = conv(h, *args, edge_attr=e, return_edge_attr=True)
        new_e = new_e.relu()
        if self.edge_dropout and self.training and self.dropout > 0:
            new_e = drop(new_e, self.dropout, generator)
        return new, new_e + e if self.edge_residual and new_e.shape == e.shape else new_e

    def _join(self, states: list[Tensor]) -> Tensor:
        if self.jk == "cat":
            return torch.cat(states, dim=-1)
        if self.jumping is not None:
            joined: Tensor = self.jumping([state.flatten(0, -2) for state in states])  # a leading dimension as rows
            return joined.view(states[-1].shape)
        return states[-1] if self.jk is None else reduce(larger, states)

    def _encode(
        self, x: Tensor, pe: Tensor | None, generator: torch.Generator | None, node_mask: Tensor | None = None
    ) -> Tensor:
        check_tensor("x", x)
        if isinstance(self.encoder, Linear):
            _check_rows("x", x)
            check_features(x, self.encoder, leading=True, sparse=True)
        h = x if self.encoder is None else self.encoder(x)
        if pe is not None:
            check_tensor("pe", pe)
            check_same_device("pe", pe, "x", h)
        if isinstance(self.pe_encoder, WalkEncoder):
            steps = self.pe_encoder.lin.in_channels
            if pe is None or pe.dim() != 2 or pe.size(-1) != steps:
                raise ValueError(f"`pe` must have shape [N, {steps}], got {None if pe is None else list(pe.shape)}")
            check_shape("pe", pe, [h.size(0), steps])
            pe = self.pe_encoder(pe, node_mask)
        elif self.pe_encoder is not None:
            if pe is None or pe.dim() != 3 or pe.size(-1) != 2:
                raise ValueError(f"`pe` must have shape [N, M, 2], got {None if pe is None else list(pe.shape)}")
            pe = self.pe_encoder(pe, generator)
        if (pe is None) != (self.pe_channels == 0) or (pe is not None and pe.size(-1) != self.pe_channels):
            came = None if pe is None else list(pe.shape)
            raise ValueError(f"`pe` must have {self.pe_channels} channels (None for none), got {came}")
        if pe is not None and pe.shape[:-1] != h.shape[:-1]:
            check_shape("pe", pe, [*h.shape[:-1], self.pe_channels])
        return h if pe is None else torch.cat([h, pe.to(h.dtype)], dim=-1)

    def _scored(self, h: Tensor, adj: Any) -> RelationalAdj:
        """The same graph with the scores of the learned split; coefficients of the graph stay unchanged."""
        if not isinstance(adj, RelationalAdj) or adj.is_soft or adj.edge_type is None or self.learned_split is None:
            raise TypeError("`edge_type` must be one relation per edge with a learned split, got scores or none")
        scores = self.learned_split(h, adj.edge_index, adj.edge_type)
        return RelationalAdj.in_forward(adj.edge_index, scores, adj.edge_weight, self.num_relations, adj.size)

    def _encode_edges(self, edge_attr: Tensor | None, edge_pe: Tensor | None) -> Tensor | None:
        """The features of edges that convolutions take, (E, F)."""
        if self.edge_encoder is None:
            return None
        e: Tensor = self.edge_encoder(edge_attr)
        if self.walk_encoder is None:
            return e
        steps = int(self.walk_encoder.in_channels)
        if edge_pe is None:
            raise ValueError(f"`edge_pe` must have shape [{e.size(0)}, {steps}] with `edge_walks`, got None")
        check_shape("edge_pe", edge_pe, [e.size(0), steps])
        check_same_device("edge_pe", edge_pe, "x", e)
        return e + linear(self.walk_encoder, edge_pe.to(e.dtype))


def _check_rows(name: str, x: Tensor) -> None:
    if x.dim() not in (2, 3):
        check_shape(name, x, ["N", "F"])
    check_floating(name, x)


def _check_batch(batch: Tensor, h: Tensor) -> None:
    """Raises unless ``batch`` has the graph of every node; on a GPU the aggregation itself checks the values."""
    check_shape("batch", batch, [h.size(-2)])
    check_integer("batch", batch)
    check_same_device("batch", batch, "x", h)
    if batch.device.type == "cpu" and not is_transformed():
        check_range("batch", batch, None)


def _encoder(
    name: str, in_channels: int, channels: int, types: int | Sequence[int] | None, start: str = "normal"
) -> torch.nn.Module:
    if types is None:
        linear: torch.nn.Module = Linear(in_channels, channels)
        return linear
    return TypeEncoder(name, [types] if isinstance(types, int) else types, channels, start)


def _normalise(
    norm: torch.nn.Module,
    x: Tensor,
    node_mask: Tensor | None,
    members: Members | None,
    relu: bool = False,
    added: Tensor | None = None,
) -> Tensor:
    """Applies a norm, then ReLU, then adds; the statistics of batch normalisation exclude padding rows.

    Of a batch norm over padded rows all of it is two kernels. With ``members`` the norm is one of each graph by itself.
    """
    if node_mask is not None and isinstance(norm, BatchNorm):
        return batch_norm(norm.module, x, node_mask, relu, added)
    # the third argument has several names
    out: Tensor = norm(x) if members is None else norm(x, members.batch[: x.size(0)], members.batch_size)
    out = out.relu() if relu else out
    return out if added is None else added + out
