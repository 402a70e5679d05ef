"""The convolutions of `GNN` by name, with their properties."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch_geometric.nn import MLP, GCNConv, RGCNConv
from torch_geometric.nn.dense import Linear

from graphprism._checks import check_type
from graphprism.nn.conv import (
    DegreeGATConv,
    DirConv,
    LMGCConv,
    MRSGATConv,
    MRSGatedGCNConv,
    MRSGCNConv,
    MRSGCNEConv,
    MRSGINConv,
    MRSGINEConv,
    MRSSAGEConv,
)
from graphprism.nn.conv.relational_weight import DECAY


@dataclass(frozen=True)
class LayerOptions:
    """Options of a layer factory besides the two widths; a layer may ignore them.

    Attributes:
        num_relations: number of relations R of the graph that the layer takes; 1 unless the convolution is relational.
        edge_dim: size of an edge feature; `None` for none, or if the convolution has no edge features.
        alpha: weight of the messages from nodes that a node points to, for directed convolutions.
        start: initialisation of relations, ``"shared"`` or ``"independent"``.
        decay: see `RelationalParameter`.
        deviation: parameters per relation with a shared start, ``"full"`` or ``"diagonal"``.
        weight_init: `None` for the initialisation of PyG's layer, ``"glorot"`` for Glorot's; SAGE only.
    """

    num_relations: int
    edge_dim: int | None
    alpha: float
    start: str
    decay: float
    deviation: str = "full"
    weight_init: str | None = None

    def relational(self) -> dict[str, Any]:
        """Arguments common to all relational layers."""
        names = ("num_relations", "start", "decay", "deviation")
        return {name: getattr(self, name) for name in names}


Factory = Callable[[int, int, LayerOptions], torch.nn.Module]


@dataclass(frozen=True)
class Convolution:
    """A kind of convolution: its factory and the properties that a network depends on.

    Attributes:
        name: the name in `CONVOLUTIONS`.
        factory: makes a layer from input width, output width and `LayerOptions`; users call `make`.
        relational: has one weight per relation, so it takes a graph that was split.
        directed: passes messages along and against every edge.
        takes_graph: False for a network on single nodes.
        takes_edge_attr: takes edge features ``edge_attr``; a layer with the argument ``return_edge_attr`` updates them.
        takes_sparse: takes node features in sparse CSR layout.
        edge_norm: coefficients to prepare before training, a kind of `graphprism.ops.edge_norm`; ``"none"`` for a layer
            that takes a prepared graph without coefficients; `None` for a layer of PyG, which takes the tensor
            ``edge_index`` (a relational one also ``edge_type``).
        takes_edge_weight: takes weights of edges.
        takes_signed_weight: weights may be negative, since messages are summed; other layers divide by sums of weights.
        has_batch_norm: the layer contains batch normalisation.
        has_softmax: weights of edges, and scores of relations, are factors of attention: none may be negative.
        counts_edges: reads the degrees of the graph that it is called with, so that sampled neighbours change it.
        fusable: a weighted sum of transformed neighbours plus a bias, which `graphprism.ops` can fuse over layers.
        partner: name of the plain form of an MRS convolution, or of the MRS form of a plain one; `None` without one.

    >>> CONVOLUTIONS["mrs-gcn"].partner, CONVOLUTIONS["mrs-gcn"].relations(3), CONVOLUTIONS["gcn"].relations(3)
    ('gcn', 3, 1)
    """

    name: str
    factory: Factory
    relational: bool = False
    directed: bool = False
    takes_graph: bool = True
    takes_edge_attr: bool = False
    takes_sparse: bool = False
    edge_norm: str | None = "none"
    takes_edge_weight: bool = True
    takes_signed_weight: bool = False
    has_batch_norm: bool = False
    has_softmax: bool = False
    counts_edges: bool = False
    fusable: bool = False
    partner: str | None = None

    def relations(self, num_relations: int) -> int:
        """Number of relations of the graph that the layer takes: 1 unless it is relational."""
        return num_relations if self.relational else 1

    @property
    def updates_edges(self) -> bool:
        """Whether a layer also returns new edge features; draws no random numbers."""
        if not self.takes_edge_attr:
            return False
        with torch.device("meta"):
            return returns_edge_attr(self.make(8, 8, edge_dim=8))

    def make(
        self,
        in_channels: int,
        out_channels: int,
        *,
        num_relations: int = 3,
        edge_dim: int | None = None,
        alpha: float = 0.5,
        start: str = "shared",
        decay: float = DECAY,
        deviation: str = "full",
        weight_init: str | None = None,
    ) -> torch.nn.Module:
        """Makes one layer; ``in_channels=-1`` takes the width from the first input.

        >>> CONVOLUTIONS["dir-sage"].make(8, 4, alpha=1.0).conv_out
        MRSSAGEConv(
          8, 4, num_relations=1
          (lin): RelationalWeight(8, 4, num_relations=1, start='shared')
        )
        """
        edge_dim = edge_dim if self.takes_edge_attr else None
        options = LayerOptions(self.relations(num_relations), edge_dim, alpha, start, decay, deviation, weight_init)
        return self.factory(in_channels, out_channels, options)


def returns_edge_attr(layer: torch.nn.Module) -> bool:
    """Whether a layer has the argument ``return_edge_attr``, with which it also returns new edge features."""
    return "return_edge_attr" in inspect.signature(layer.forward).parameters


def _mlp(i: int, o: int, options: LayerOptions) -> torch.nn.Module:
    linear: torch.nn.Module = Linear(i, o)
    return linear


def _gcn(i: int, o: int, options: LayerOptions) -> torch.nn.Module:
    return MRSGCNConv(i, o, **options.relational())


def _sage(i: int, o: int, options: LayerOptions) -> torch.nn.Module:
    return MRSSAGEConv(i, o, init=_sage_init(options), **options.relational())


def _sage_init(options: LayerOptions) -> str:
    return "kaiming_uniform" if options.weight_init is None else options.weight_init


def _gat(i: int, o: int, options: LayerOptions) -> torch.nn.Module:
    return MRSGATConv(i, o, heads=2, concat=False, **options.relational())


def _degree_gat(i: int, o: int, options: LayerOptions) -> torch.nn.Module:
    return DegreeGATConv(i, o, heads=2, concat=False)


def _gin(num_maps: int) -> Factory:
    def make(i: int, o: int, options: LayerOptions) -> torch.nn.Module:
        # with a shared start the layer starts as the plain one, so it has the plain layer's network
        widths = [i, *[o] * (3 if options.start == "shared" else num_maps)]
        return MRSGINConv(lambda: MLP(widths, norm=None), **options.relational())

    return make


def _gated_gcn(gate_per_relation: bool) -> Factory:
    def make(i: int, o: int, options: LayerOptions) -> torch.nn.Module:
        own: dict[str, Any] = {"edge_dim": options.edge_dim, "gate_per_relation": gate_per_relation}
        return MRSGatedGCNConv(i, o, **own, **options.relational())

    return make


def _gcne(i: int, o: int, options: LayerOptions) -> torch.nn.Module:
    return MRSGCNEConv(i, o, edge_dim=options.edge_dim, **options.relational())


def _gine(i: int, o: int, options: LayerOptions) -> torch.nn.Module:
    return MRSGINEConv(i, o, edge_dim=options.edge_dim, **options.relational())


def _both_directions(factory: Factory) -> Factory:
    def make(i: int, o: int, options: LayerOptions) -> torch.nn.Module:
        return DirConv(lambda: factory(i, o, options), options.alpha)

    return make


def _dir_sage(i: int, o: int, options: LayerOptions) -> torch.nn.Module:
    # the node itself has no direction: one root weight, not one per direction
    def layer() -> torch.nn.Module:
        return MRSSAGEConv(i, o, root_weight=False, init=_sage_init(options), **options.relational())

    return DirConv(layer, options.alpha, root_weight=(i, o))


def _pair(
    name: str,
    plain: Factory,
    relational: Factory,
    edge_norm: str = "none",
    directed: bool = False,
    takes_sparse: bool = True,
    takes_edge_attr: bool = False,
    takes_signed_weight: bool = False,
    has_batch_norm: bool = False,
    has_softmax: bool = False,
    fusable: bool = False,
) -> tuple[Convolution, Convolution]:
    """A plain convolution and its MRS form; the plain one is the MRS layer with one relation, equal to PyG's layer."""

    def form(own: str, other: str, factory: Factory, is_relational: bool) -> Convolution:
        return Convolution(
            own,
            factory,
            relational=is_relational,
            directed=directed,
            takes_edge_attr=takes_edge_attr,
            takes_sparse=takes_sparse,
            edge_norm=edge_norm,
            takes_signed_weight=takes_signed_weight,
            has_batch_norm=has_batch_norm,
            has_softmax=has_softmax,
            fusable=fusable,
            partner=other,
        )

    return form(name, f"mrs-{name}", plain, False), form(f"mrs-{name}", name, relational, True)


_ENTRIES = (
    *_pair("gcn", _gcn, _gcn, edge_norm="sym", fusable=True),
    *_pair("sage", _sage, _sage, edge_norm="mean"),
    *_pair("gat", _gat, _gat, has_softmax=True),
    # three maps in the plain network and two in each of the relations', as the paper's parameter table counts
    *_pair("gin", _gin(3), _gin(2), takes_sparse=False, takes_signed_weight=True),
    *_pair(
        "gated-gcn",
        _gated_gcn(False),
        _gated_gcn(False),
        takes_sparse=False,
        takes_edge_attr=True,
        has_batch_norm=True,
    ),
    # nine maps, as the paper's parameter table counts; its formula has seven
    Convolution(
        "mrs-gated-gcn-9",
        _gated_gcn(True),
        relational=True,
        takes_edge_attr=True,
        has_batch_norm=True,
        partner="gated-gcn",
    ),
    # the convolutions of GCN+ and GIN+: edge features, and a ReLU in the messages
    *_pair("gcne", _gcne, _gcne, takes_sparse=False, takes_edge_attr=True, takes_signed_weight=True),
    *_pair("gine", _gine, _gine, takes_sparse=False, takes_edge_attr=True, takes_signed_weight=True),
    # a baseline of the paper's parameter table
    Convolution("gat-degree", _degree_gat, takes_sparse=True, has_softmax=True, counts_edges=True),
    # learned relations
    Convolution("lmgc", lambda i, o, _: LMGCConv(i, o, heads=4), takes_signed_weight=True),
    Convolution("mlp", _mlp, takes_graph=False, takes_sparse=True, takes_edge_weight=False),
    *_pair("dir-gcn", _both_directions(_gcn), _both_directions(_gcn), edge_norm="dir", directed=True),
    # a mean is taken in each direction, so no single coefficient per edge can be prepared
    *_pair("dir-sage", _dir_sage, _dir_sage, directed=True),
    *_pair("dir-gat", _both_directions(_gat), _both_directions(_gat), directed=True, has_softmax=True),
    # Layers of PyG as baselines, with PyG's defaults: `GCNConv` adds self-loops, unlike gcn above.
    Convolution("pyg-gcn", lambda i, o, _: GCNConv(i, o), edge_norm=None),
    Convolution(
        "pyg-rgcn",
        lambda i, o, k: RGCNConv(i, o, k.num_relations),
        edge_norm=None,
        relational=True,
        takes_edge_weight=False,
    ),
)
_KNOWN = {entry.name: entry for entry in _ENTRIES}
CONVOLUTIONS: Mapping[str, Convolution] = _KNOWN
_OURS = frozenset(_KNOWN)
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def register_convolution(convolution: Convolution) -> Convolution:
    """Makes a convolution known by its name, to `GNN`, to runs and to ``--model``, in this process.

    Results are found by the settings of a run, of which this is the name: a layer that was changed needs another one.

    .. code-block:: python

        register_convolution(Convolution("mrs-own", lambda i, o, k: OwnConv(i, o, k.num_relations), relational=True))
    """
    check_type("convolution", convolution, Convolution, "a Convolution")
    name = convolution.name
    if not _NAME.fullmatch(name):
        raise ValueError(f"`name` of a convolution must be words of a-z and 0-9 with hyphens, got {name!r}")
    if name in _OURS:
        raise ValueError(f"`name` of a convolution must be new, got {name!r}, which is one of this package")
    _KNOWN[name] = convolution
    return convolution


def is_ours(name: str) -> bool:
    """Whether a convolution is one of this package, which engines know from the inside."""
    return name in _OURS
