"""The protocol of a graph that is prepared once and used by many ops and layers."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class PreparedGraph(Protocol):
    """A graph with relations and weights: `RelationalAdj`, or the padded layout of lockstep training.

    The methods that share the name of an op implement it for this layout; `graphprism.ops` documents them. An *entry*
    is an edge in one relation. K counts entries, N nodes, R relations.
    """

    @property
    def num_relations(self) -> int:
        """R."""

    @property
    def size(self) -> tuple[int, int]:
        """Numbers of sources and of targets."""

    @property
    def is_soft(self) -> bool:
        """Whether an edge may be in several relations."""

    @property
    def edge_weight(self) -> Tensor | None:
        """(E,) the weight of every edge; `None`: layers apply their own normalisation."""

    @property
    def entry_edge(self) -> Tensor | None:
        """(K,) the edge of every entry; `None` where entries are the edges."""

    @property
    def node_mask(self) -> Tensor | None:
        """(N,) zero for rows that are padding; `None` where every row is a node."""

    @property
    def entry_mask(self) -> Tensor | None:
        """(K,) false for entries that are padding; `None` where every entry is an edge."""

    def normalized(self, kind: str, dtype: torch.dtype | None = None) -> PreparedGraph:
        """The same edges weighted by `edge_norm`."""

    def merged(self) -> PreparedGraph:
        """The same edges and weights in one relation."""

    def relational_linear(self, x: Tensor, weight: Tensor, impl: str | None = None) -> Tensor:
        """(N_src, F_in), (R, F_in, F_out) -> (N_dst, F_out)."""

    def relational_aggregate(self, x: Tensor, impl: str | None = None) -> Tensor:
        """(N_src, F) -> (N_dst, R, F)."""

    def relational_sum(self, h: Tensor, weight: Tensor | None = None, impl: str | None = None) -> Tensor:
        """(N_src, R, F) -> (N_dst, F)."""

    def entry_sum(self, rows: Tensor, impl: str | None = None) -> Tensor:
        """(K, F) -> (N_dst, F)."""

    def relu_sum(self, h: Tensor, edge_rows: Tensor | None = None, by_relation: bool = False) -> Tensor:
        """(N_src, F) or (N_src, R, F), (E, F) -> (N_dst, F), by relation (N_dst, R, F)."""

    def edge_softmax(self, logit: Tensor) -> Tensor:
        """(K, H) -> (K, H)."""

    def at_senders(self, h: Tensor) -> Tensor:
        """(N_src, R, ...) or (N_src, F) -> (K, ...)."""

    def at_receivers(self, h: Tensor) -> Tensor:
        """(N_dst, R, ...) or (N_dst, F) -> (K, ...)."""
