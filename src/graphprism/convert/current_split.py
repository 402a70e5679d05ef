"""The relations of the edges of a call, shared by a converted model with its convolutions."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.utils import to_edge_index

from graphprism.ops import RelationalAdj
from graphprism.ops.backends import is_traced
from graphprism.splitting import Split
from graphprism.splitting.ranks import order_columns, relations_by_ranks

NOT_OF_THE_GRAPH = (
    "a converted {} must pass messages along the edges that it gets, and if it reorders them, each pair of nodes must "
    "have one relation, got others"
)

# Sets of edges of earlier calls that are known to the backward pass.
_RECENT = 32


@dataclass(frozen=True, eq=False)
class SplitEdgeIndex:
    """Edges that a model was called with, and their relations, (E,) or (E, R); prepared from the second call on.

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
    """State that a converted model shares with its convolutions: the split, and the relations of the current call.

    The relations of the last call are cached, for each set of edges. The cache key is the identity and version of the
    tensors that the split read (weak references, never addresses, which the next batch may reuse), and on the CPU their
    values. Those of tensors made in ``torch.inference_mode``, which have no version, are not.

    Args:
        split: from a graph to the relation of each edge.
        num_relations: R.

    Attributes:
        is_given: whether every call must bring its relations, as ablation needs it: a split of the edges that are left
            would give them other ones.
        lock: held during a call: its edges, and layers that run with other parameters, are state of the model.
    """

    def __init__(self, split: Split, num_relations: int) -> None:
        self.split, self.num_relations = split, num_relations
        self.is_given = False
        self.lock = threading.RLock()
        self.entries: list[SplitEdgeIndex] = []
        self._kept: dict[Any, _Kept] = {}
        self._last: list[tuple[Any, Tensor]] = []

    def __getstate__(self) -> dict[str, Any]:
        return {"split": self.split, "num_relations": self.num_relations}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["split"], state["num_relations"])  # type: ignore[misc]

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def entry_of(self, key: Any, graph: CalledGraph) -> SplitEdgeIndex:
        """The edges of a call with their relations, cached if the last call had the same tensors.

        Edges that are seen a second time are prepared for all layers and later calls.
        """
        if self.is_given:
            raise ValueError(
                "a converted model must get `edge_type` to be explained, got none: it would split the edges that are "
                "left without a relation anew; pass forward=lambda model, data: model(..., edge_type=data.edge_type)"
            )
        # the relations of an earlier call would be constants of a trace
        kept = None if is_traced() else self._kept.get(key)
        if kept is None or not kept.fits(graph):
            with torch.no_grad():
                types = graph.relations(self.split)
            if types.dim() == 1:
                _check_below(types, self.num_relations)
            kept = self._kept[key] = _Kept.of(graph, types)
        elif kept.adj is None:
            edges = graph.edges().detach()  # a new object: the caller's tensor is not kept alive
            kept.adj = RelationalAdj(
                edges, kept.types, num_relations=self.num_relations, num_nodes=graph.size
            ).prepare()
        return SplitEdgeIndex(graph.original, kept.types, kept.adj)

    def leave(self, outer: list[SplitEdgeIndex]) -> None:
        """Ends a call: drops its edges, except for activation checkpoints, which run in the backward pass."""
        if not torch.compiler.is_compiling():
            # newest first: several calls may come before one backward pass
            new = [(_identity(entry.edge_index), entry.edge_type) for entry in self.entries]
            given = [None, *(entry.edge_index for entry in self.entries)]
            alive = [each for each in self._last if not any(each[0][0]() is edges for edges in given)]
            self._last = (new + alive)[: max(len(new), _RECENT)]
        self.entries = outer

    def lookup(self, edge_index: object) -> SplitEdgeIndex:
        """Edges with their relations; raises unless they are edges that the model was called with, or a copy."""
        for entry in self.entries:
            if entry.edge_index is edge_index:
                return entry
        for seen, types in [] if self.entries else self._last:
            if _is_same(seen, edge_index):
                assert isinstance(edge_index, Tensor)
                return SplitEdgeIndex(edge_index, types)
        if isinstance(edge_index, Tensor) and not (torch.compiler.is_compiling() or is_traced()):
            found = self._lookup_start(edge_index) or self._lookup_by_value(edge_index)
            if found is not None:
                return found
        raise ValueError(
            "a converted convolution must get the `edge_index` that the model was called with, or `edge_type=` with "
            "another one, got another one without: relations come from a split of the whole graph, not of the edges "
            "that remain after dropout, pooling or sampling; a model that changes its edges takes `edge_type` in its "
            "forward, changes it alike, as by `edge_type[mask]`, and calls `conv(x, edge_index, edge_type=edge_type)`"
        )

    def _lookup_start(self, edge_index: Tensor) -> SplitEdgeIndex | None:
        """The relations of a view of the first edges of the call, which PyG's ``trim_to_layer`` makes."""
        for entry in self.entries:
            if _is_start(edge_index, entry.edge_index):
                return SplitEdgeIndex(edge_index, entry.edge_type[: edge_index.size(1)])
        return None

    def _lookup_by_value(self, edge_index: Tensor) -> SplitEdgeIndex | None:
        """The relations of edges of the call in another tensor: a copy, or, in a checkpoint, a detached one."""
        known = [(entry.edge_index, entry.edge_type) for entry in self.entries]
        for (watched, version), types in [] if known else self._last:
            edges = watched()
            if edges is not None and _is_same((watched, version), edges):
                known.append((edges, types))
        found = [types for edges, types in known if _has_same_edges(edges, edge_index)]
        is_unique = bool(found) and all(torch.equal(each, found[0]) for each in found)
        return SplitEdgeIndex(edge_index, found[0]) if is_unique else None


class CalledGraph:
    """The graph of a call, for a split: arguments by name; records which of them were read.

    Args:
        edge_index: (2, E) edges, or a sparse tensor with a row for every receiver.
        num_nodes: N, or (senders, receivers) of two types, numbered one after the other.
        arguments: of the call, by name.
        nodes: the graph of all edges between nodes of this type, in a call with several node types.
    """

    def __init__(
        self,
        edge_index: Tensor,
        num_nodes: int | tuple[int, int],
        arguments: Mapping[str, Any],
        nodes: CalledGraph | None = None,
    ) -> None:
        self.original = edge_index
        # under `torch.jit.trace` the sizes of tensors are tensors
        self.size = int(num_nodes) if isinstance(num_nodes, Tensor) else num_nodes
        if not isinstance(self.size, int):  # no rows for the nodes of both types
            arguments = {name: value for name, value in arguments.items() if name not in ("x", "batch")}
        self._arguments, self.nodes = arguments, nodes
        self.read: dict[str, Any] = {}

    def relations(self, split: Split) -> Tensor:
        """Relations of the edges, as `SplitEdges` writes them."""
        if not isinstance(self.size, int):
            return split.between_types(self)
        if self.nodes is None:
            return split(self)
        return relations_by_ranks(split, self, *order_columns(split, self.nodes))[0]

    def tensors(self) -> dict[str, Any]:
        """What the relations depend on: the edges, and the arguments that were read."""
        own = {"edge_index": self.original, **self.read}
        return own if self.nodes is None else {**own, "nodes": self.nodes.tensors()}

    def has(self, seen: Mapping[str, Any]) -> bool:
        """Whether these are identities of its tensors, see `_identity`."""
        return all(
            (self.nodes is not None and self.nodes.has(each))
            if name == "nodes"
            else _is_same(each, self.original if name == "edge_index" else self.value(name))
            for name, each in seen.items()
        )

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


class NodesOfType(CalledGraph):
    """The nodes of one type with the edges of all kinds between them.

    Args:
        parts: edges of each kind.
        num_nodes: N.
        arguments: of the nodes, by name.
    """

    def __init__(self, parts: list[Tensor], num_nodes: int, arguments: Mapping[str, Any]) -> None:
        super().__init__(parts[0], num_nodes, arguments)
        self.parts = parts

    def tensors(self) -> dict[str, Any]:
        """The edges of every kind, and the arguments that were read."""
        return {"parts": self.parts, **self.read}

    def has(self, seen: Mapping[str, Any]) -> bool:
        """Whether these are identities of its tensors."""
        return all(_is_same(each, self.parts if name == "parts" else self.value(name)) for name, each in seen.items())

    def edges(self) -> Tensor:
        """The edges of all kinds, (2, E)."""
        return torch.cat(self.parts, dim=1)


@dataclass(eq=False)
class _Kept:
    """Cached relations, with the tensors that they depend on."""

    size: int | tuple[int, int]
    seen: dict[str, Any]
    values: list[tuple[weakref.ref[Tensor], Tensor]]
    types: Tensor
    adj: RelationalAdj | None = None

    @classmethod
    def of(cls, graph: CalledGraph, types: Tensor) -> _Kept:
        tensors = graph.tensors()
        return cls(graph.size, _identity(tensors), _values(tensors), types)

    def fits(self, graph: CalledGraph) -> bool:
        same = graph.size == self.size and graph.has(self.seen)
        return same and all(torch.equal(ref(), value) for ref, value in self.values)  # type: ignore[arg-type]


def _values(value: Any) -> list[tuple[weakref.ref[Tensor], Tensor]]:
    """Tensors on the CPU with copies of them: what NumPy writes into shared memory changes no version."""
    if isinstance(value, (dict, list)):
        parts = value.values() if isinstance(value, dict) else value
        return [pair for part in parts for pair in _values(part)]
    is_plain = type(value) is Tensor and value.device.type == "cpu" and value.layout == torch.strided
    return [(weakref.ref(value), value.detach().clone())] if is_plain else []


def _identity(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _identity(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_identity(each) for each in value]
    return (weakref.ref(value), _version(value)) if isinstance(value, Tensor) else value


def _version(tensor: Tensor) -> int | None:
    """Number of changes in place; None for a tensor made in ``torch.inference_mode``, whose changes go unnoticed."""
    return None if tensor.is_inference() else tensor._version


def _is_same(seen: Any, value: Any) -> bool:
    if isinstance(value, Tensor):
        version = _version(value)
        return isinstance(seen, tuple) and version is not None and seen[0]() is value and seen[1] == version
    if isinstance(value, list):
        return isinstance(seen, list) and len(seen) == len(value) and all(map(_is_same, seen, value))
    return seen is value


def _is_start(part: Tensor, edges: Tensor) -> bool:
    if {part.layout, edges.layout} != {torch.strided} or part.shape[:-1] != edges.shape[:-1]:
        return False
    is_view = part.untyped_storage().data_ptr() == edges.untyped_storage().data_ptr()
    is_aligned = (part.stride(), part.storage_offset()) == (edges.stride(), edges.storage_offset())
    return is_view and is_aligned and part.dtype == edges.dtype and part.size(1) <= edges.size(1)


def _has_same_edges(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.device != other.device or {one.layout, other.layout} != {torch.strided}:
        return False
    return bool((one == other).all())


def _check_below(types: Tensor, num_relations: int) -> None:
    if types.numel() and int(types.max()) >= num_relations:
        raise ValueError(f"the split must give relations below {num_relations}, got {int(types.max())}")


def types_at(seen: Tensor, entry: SplitEdgeIndex, num_relations: int) -> Tensor | None:
    """Relations (E',) of edges that a convolution derived from those of the graph; None if some are not of the graph.

    ``seen`` may be the edges themselves, reversed, or with self-loops replaced or added (in the last relation), or any
    subset in any order: each pair of nodes gets its relation in the graph, unless it has several. Compiled code raises
    in place of None.
    """
    edges, types = entry.edge_index, entry.edge_type
    if seen is edges:
        return types
    has_no_values = torch.compiler.is_compiling() or is_traced()
    rows = (_traced_rows if has_no_values else _rows)(seen, edges, types.detach())
    loop = torch.full((1,), num_relations - 1, dtype=types.dtype, device=types.device)
    if types.dim() == 2:
        loop = torch.eye(num_relations, device=types.device, dtype=types.dtype)[-1:]
    return None if rows is None else torch.cat([types, loop])[rows]


def _rows(seen: Tensor, edges: Tensor, types: Tensor) -> Tensor | None:
    """Positions (E',) in ``edges`` of edges with the relation of each edge in ``seen``, E for added self-loops."""
    number = torch.arange(edges.size(1), device=edges.device)
    if seen.shape == edges.shape and (torch.equal(seen, edges) or torch.equal(seen, edges.flip(0))):
        return number
    kept = edges[0] != edges[1]
    for start, known in ((edges[:, kept], number[kept]), (edges, number)):  # self-loops replaced, or added
        added = seen[:, start.size(1) :]
        if torch.equal(seen[:, : start.size(1)], start) and torch.equal(added[0], added[1]):
            return torch.cat([known, known.new_full((added.size(1),), edges.size(1))])
    return _rows_of_pairs(
        seen, edges, types if types.dim() == 1 else torch.unique(types, dim=0, return_inverse=True)[1]
    )


def _rows_of_pairs(seen: Tensor, edges: Tensor, number: Tensor) -> Tensor | None:
    """`_rows` of pairs of nodes; None if a pair has no edge, or several with different ``number``."""
    nodes = int(torch.cat([seen, edges], dim=1).max()) + 1 if seen.numel() else 1
    key = edges[0] * nodes + edges[1]
    by_number = number.argsort(stable=True)
    order = by_number[key[by_number].argsort(stable=True)]
    key, number = key[order], number[order]  # sorted by pair, then by number: unique iff the first equals the last
    wanted, loops = seen[0] * nodes + seen[1], seen[0] == seen[1]
    if key.numel() == 0:
        return torch.zeros_like(wanted) if bool(loops.all()) else None
    first = torch.searchsorted(key, wanted).clamp(max=key.numel() - 1)
    last = (torch.searchsorted(key, wanted, right=True) - 1).clamp(min=0)
    known = (key[first] == wanted) & (number[first] == number[last])
    if not bool((known | loops).all()):
        return None
    return torch.where(loops, key.numel(), order[first])


# an op of its own, since compiled code cannot branch on the values that tell which edges a convolution made
@torch.library.custom_op("graphprism::rows_of_edges", mutates_args=())
def _traced_rows(seen: Tensor, edges: Tensor, types: Tensor) -> Tensor:
    rows = _rows(seen, edges, types)
    if rows is None:
        raise ValueError(NOT_OF_THE_GRAPH.format("convolution"))
    return rows


@_traced_rows.register_fake
def _shape_of_rows(seen: Tensor, edges: Tensor, types: Tensor) -> Tensor:
    return seen.new_empty(seen.size(1), dtype=torch.long)
