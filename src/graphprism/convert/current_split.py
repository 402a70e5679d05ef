"""The relations of the edges that a converted model is called with, as its convolutions find them."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.utils import to_edge_index

from graphprism.ops import RelationalAdj
from graphprism.splitting import Split


@dataclass(frozen=True, eq=False)
class SplitEdgeIndex:
    """Edges that a model was called with, and their relations, (E,) or (E, R); prepared if they came before.

    Edges are a tensor (2, E) or PyG's ``adj_t``, a sparse tensor with a row for every receiver, whose relations are in
    the order of its entries.
    """

    edge_index: Tensor
    edge_type: Tensor
    adj: RelationalAdj | None = None

    def edges(self) -> tuple[Tensor, Tensor | None]:
        """The edges as a tensor (2, E), and the weights that a sparse tensor holds; `None` where all are one."""
        return (self.edge_index, None) if self.edge_index.layout == torch.strided else sparse_edges(self.edge_index)


def sparse_edges(adj_t: Tensor) -> tuple[Tensor, Tensor | None]:
    """``edge_index`` and weights of a sparse tensor with a row for every receiver, in the order of its entries."""
    (target, source), values = to_edge_index(adj_t)
    is_weight = values.is_floating_point() and not bool((values == 1).all())
    return torch.stack([source, target]), values if is_weight else None


class CurrentSplit:
    """What a converted model shares with its convolutions: how to split, and the edges that are split now.

    One split is kept from call to call, of each set of edges that a call has. It is found by the tensors that the split
    has read, as objects with their version, never by their address, which the next batch may have; the tensors are not
    kept alive.

    Args:
        split: from a graph to the relation of each edge.
        num_relations: R.
    """

    def __init__(self, split: Split, num_relations: int) -> None:
        self.split, self.num_relations = split, num_relations
        self.entries: list[SplitEdgeIndex] = []
        self._kept: dict[Any, _Kept] = {}
        self._last: list[tuple[Any, Tensor]] = []

    def __getstate__(self) -> dict[str, Any]:
        return {"split": self.split, "num_relations": self.num_relations}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["split"], state["num_relations"])  # type: ignore[misc]

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def entry_of(self, key: Any, graph: CalledGraph) -> SplitEdgeIndex:
        """The edges of a call with their relations, computed unless the last split read the same tensors.

        Edges that come a second time are prepared for all layers and calls to come.
        """
        kept = self._kept.get(key)
        if kept is None or not kept.fits(graph):
            with torch.no_grad():
                types = self.split(graph)
            if types.dim() == 1:
                _check_below(types, self.num_relations)
            kept = self._kept[key] = _Kept.of(graph, types)
        elif kept.adj is None:
            edges = graph.edges().detach()  # another object: the one of the call is not kept alive
            kept.adj = RelationalAdj(
                edges, kept.types, num_relations=self.num_relations, num_nodes=graph.size
            ).prepare()
        return SplitEdgeIndex(graph.original, kept.types, kept.adj)

    def leave(self, outer: list[SplitEdgeIndex]) -> None:
        """Ends a call: its edges are not kept alive, but still known to activation checkpoints, which run later."""
        if not torch.compiler.is_compiling():
            self._last = [(_identity(entry.edge_index), entry.edge_type) for entry in self.entries]
        self.entries = outer

    def lookup(self, edge_index: object) -> SplitEdgeIndex:
        """Edges with their relations; raises where they are not those that the model was called with."""
        for entry in self.entries:
            if entry.edge_index is edge_index:
                return entry
        for seen, types in [] if self.entries else self._last:
            if _is_same(seen, edge_index):
                assert isinstance(edge_index, Tensor)
                return SplitEdgeIndex(edge_index, types)
        raise ValueError(
            "a converted convolution must get the `edge_index` that the model was called with, or `edge_type=` with "
            "another one, got another one without: relations come from a split of the whole graph, not of what is left "
            "after dropped edges, pooling or sampling"
        )


class CalledGraph:
    """The graph of a call, for a split: arguments by their name; notes which of them were read.

    Args:
        edge_index: (2, E) edges, or a sparse tensor with a row for every receiver.
        num_nodes: N, or (senders, receivers), which become one set of nodes.
        arguments: of the call, by name.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int | tuple[int, int], arguments: Mapping[str, Any]) -> None:
        self.original = edge_index
        self.size = num_nodes
        self._arguments = arguments if isinstance(num_nodes, int) else {}
        self.read: dict[str, Any] = {}

    def edges(self) -> Tensor:
        """The edges of the call, (2, E)."""
        return self.original if self.original.layout == torch.strided else sparse_edges(self.original)[0]

    @property
    def edge_index(self) -> Tensor:
        """Edges among one set of nodes, (2, E)."""
        edges = self.edges()
        return edges if isinstance(self.size, int) else torch.stack([edges[0], edges[1] + self.size[0]])

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.size if isinstance(self.size, int) else sum(self.size)

    def value(self, name: str) -> Any:
        """The argument ``name`` of the call, or None."""
        return self._arguments.get(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = self.read[name] = self.value(name)
        return value


@dataclass(eq=False)
class _Kept:
    """A split, with the tensors that it depends on."""

    size: int | tuple[int, int]
    seen: dict[str, Any]
    types: Tensor
    adj: RelationalAdj | None = None

    @classmethod
    def of(cls, graph: CalledGraph, types: Tensor) -> _Kept:
        read = {"edge_index": graph.original, **graph.read}
        return cls(graph.size, {name: _identity(value) for name, value in read.items()}, types)

    def fits(self, graph: CalledGraph) -> bool:
        return graph.size == self.size and all(
            _is_same(seen, graph.original if name == "edge_index" else graph.value(name))
            for name, seen in self.seen.items()
        )


def _identity(value: Any) -> Any:
    return (weakref.ref(value), value._version) if isinstance(value, Tensor) else value


def _is_same(seen: Any, value: Any) -> bool:
    if isinstance(value, Tensor):
        return isinstance(seen, tuple) and seen[0]() is value and seen[1] == value._version
    return seen is value


def _check_below(types: Tensor, num_relations: int) -> None:
    if types.numel() and int(types.max()) >= num_relations:
        raise ValueError(f"the split must give numbers below {num_relations} relations, got {int(types.max())}")


def types_at(seen: Tensor, entry: SplitEdgeIndex, num_relations: int) -> Tensor | None:
    """Relations of the edges that a convolution made of its own, (E',); None where some are not of the graph.

    ``seen`` may be the edges themselves, reversed, with self-loops replaced or added, which are in the last relation,
    or any of them in any order, each pair of nodes with its relation in the graph; a pair in two relations has none.
    """
    edges, types = entry.edge_index, entry.edge_type
    if seen is edges:
        return types
    if seen.shape == edges.shape and (torch.equal(seen, edges) or torch.equal(seen, edges.flip(0))):
        return types
    loop = num_relations - 1
    loops = torch.full((1,), loop, dtype=types.dtype, device=types.device)
    if types.dim() == 2:
        loops = torch.eye(num_relations, device=types.device, dtype=types.dtype)[loop:]
    kept = edges[0] != edges[1]
    for start, known in ((edges[:, kept], types[kept]), (edges, types)):  # self-loops replaced, or added
        added = seen[:, start.size(1) :]
        if torch.equal(seen[:, : start.size(1)], start) and torch.equal(added[0], added[1]):
            return torch.cat([known, loops.expand(added.size(1), *loops.shape[1:])])
    if types.dim() == 1:
        return _at_pairs(seen, edges, types, loop)
    rows, number = torch.unique(torch.cat([types, loops]), dim=0, return_inverse=True)
    found = _at_pairs(seen, edges, number[:-1], int(number[-1]))
    return None if found is None else rows[found]


def _at_pairs(seen: Tensor, edges: Tensor, number: Tensor, loop: int) -> Tensor | None:
    """The ``number`` (E,) of the edges that join each pair of ``seen``, ``loop`` at self-loops; None if not one."""
    nodes = int(torch.cat([seen, edges], dim=1).max()) + 1 if seen.numel() else 1
    key = edges[0] * nodes + edges[1]
    by_number = number.argsort(stable=True)
    order = by_number[key[by_number].argsort(stable=True)]
    key, number = key[order], number[order]  # sorted by pair, then by number: equal ends are equal throughout
    wanted, loops = seen[0] * nodes + seen[1], seen[0] == seen[1]
    if key.numel() == 0:
        return torch.full_like(wanted, loop) if bool(loops.all()) else None
    first = torch.searchsorted(key, wanted).clamp(max=key.numel() - 1)
    last = (torch.searchsorted(key, wanted, right=True) - 1).clamp(min=0)
    known = (key[first] == wanted) & (number[first] == number[last])
    if not bool((known | loops).all()):
        return None
    return torch.where(loops, loop, number[first])
