"""Networks of other authors for node classification: the baselines of the paper's table of directed graphs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from graphprism._text import suggest
from graphprism.nn.models.baselines.adjacency_features import LINKX, GloGNN
from graphprism.nn.models.baselines.digraphs import DiGCN, FaberNet, MagNet
from graphprism.nn.models.baselines.fixed_propagation import FSGNN, GPRGNN, H2GCN
from graphprism.nn.models.baselines.gates import ACMGCN, GradientGating

# Arguments common to all networks and graphs; the others are options of a network.
_SHARED = ("in_channels", "hidden_channels", "out_channels", "num_layers", "num_nodes", "dropout", "num_relations")
_GIVEN = ("x", "edge_index", "dtype", "num_layers", "edge_type", "num_relations")


@dataclass(frozen=True)
class Baseline:
    """A network of other authors: its class, its graph, and the properties that training depends on.

    Attributes:
        name: the name in `BASELINES`.
        network: class of the network; its static method ``prepare`` makes the graph that it takes.
        fields: arguments of the network that are fields of every run, such as ``alpha``.
        relational: has one weight per relation, so it takes a graph that was split.
        takes_sparse: takes node features in sparse CSR layout.
        drops_features: whether features may be dropped in training; not if they are propagated before it.

    >>> BASELINES["gpr-gnn"].options
    ('steps', 'alpha', 'late_dropout')
    """

    name: str
    network: Any
    fields: tuple[str, ...] = ()
    relational: bool = False
    takes_sparse: bool = True
    drops_features: bool = True

    # Properties of a `Convolution`; these networks prepare their own graph, never a fused or padded one.
    directed: ClassVar[bool] = False
    takes_graph: ClassVar[bool] = True
    takes_edge_attr: ClassVar[bool] = False
    takes_edge_weight: ClassVar[bool] = False
    takes_signed_weight: ClassVar[bool] = False
    has_batch_norm: ClassVar[bool] = False
    fusable: ClassVar[bool] = False
    edge_norm: ClassVar[str | None] = None
    partner: ClassVar[str | None] = None

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options of the network and of its graph."""
        known = [*_names(self.network, (*_SHARED, *self.fields)), *_names(self.network.prepare, _GIVEN)]
        return tuple(dict.fromkeys(known))

    def check(self, options: Mapping[str, Any]) -> None:
        """Raises `ValueError` for an option that this network does not have."""
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            known = ", ".join(self.options) or "none"
            came = f"{', '.join(unknown)}{suggest(unknown[0], self.options)}"
            raise ValueError(f"`options` of {self.name} must be among {known}, got {came}")

    def make(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        *,
        num_nodes: int,
        dropout: float = 0.0,
        num_relations: int = 1,
        fields: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> torch.nn.Module:
        """The network, initialised.

        Args:
            in_channels: size of a node feature.
            hidden_channels: width of the hidden layers.
            out_channels: size of an output row.
            num_layers: number of layers, as defined by the network.
            num_nodes: number of nodes of the graph, for networks with a weight for each node.
            dropout: share of channels dropped in training.
            num_relations: number of relations R, for relational networks.
            fields: a value for each of ``self.fields``.
            options: options of the network; those of its graph are ignored.
        """
        self.check(options)
        own = {name: options[name] for name in _names(self.network, _SHARED) if name in options}
        sizes = {"num_nodes": num_nodes} if "num_nodes" in _names(self.network, ()) else {}
        relations = {"num_relations": num_relations} if self.relational else {}
        network: torch.nn.Module = self.network(
            in_channels,
            hidden_channels,
            out_channels,
            num_layers,
            dropout=dropout,
            **sizes,
            **relations,
            **(fields or {}),
            **own,
        )
        return network

    def prepare(
        self,
        x: Tensor,
        edge_index: Tensor,
        dtype: torch.dtype,
        *,
        num_layers: int,
        edge_type: Tensor | None = None,
        num_relations: int = 1,
        **options: Any,
    ) -> Any:
        """The graph that the network takes; options of the network itself are ignored."""
        self.check(options)
        own = {name: options[name] for name in _names(self.network.prepare, _GIVEN) if name in options}
        if "num_layers" in _names(self.network.prepare, ()):
            own["num_layers"] = num_layers
        split = {"edge_type": edge_type, "num_relations": num_relations} if self.relational else {}
        return self.network.prepare(x, edge_index, dtype, **split, **own)


def _names(function: Any, without: tuple[str, ...]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in without]


_FABER = ("alpha", "jk", "normalize", "start", "decay")
_ENTRIES = (
    Baseline("h2gcn", H2GCN),
    Baseline("gpr-gnn", GPRGNN),
    Baseline("linkx", LINKX),
    Baseline("fsgnn", FSGNN, drops_features=False),
    Baseline("acm-gcn", ACMGCN),
    Baseline("glognn", GloGNN),
    Baseline("g2", GradientGating),
    Baseline("digcn", DiGCN),
    Baseline("magnet", MagNet),
    Baseline("fabernet", FaberNet, fields=_FABER),
    Baseline("mrs-fabernet", FaberNet, fields=_FABER, relational=True),
)
BASELINES: Mapping[str, Baseline] = {entry.name: entry for entry in _ENTRIES}
