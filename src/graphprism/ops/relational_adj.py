"""The edges of a multi-relational graph, prepared once for many products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from graphprism._checks import (
    check_dense,
    check_floating,
    check_homogeneous,
    check_integer,
    check_no_nan,
    check_positive,
    check_ranges,
    check_same_device,
    check_shape,
    check_sizes,
    check_tensor,
    check_whole,
    guard_ranges,
)
from graphprism.ops.aggregate import dispatch_aggregate, dispatch_sum
from graphprism.ops.backends import is_captured, is_exported
from graphprism.ops.csr import Csr
from graphprism.ops.edge_norm import check_norm, trusted_norm
from graphprism.ops.edge_softmax import dispatch_softmax
from graphprism.ops.entries import dispatch_entry_sum, gather_nodes
from graphprism.ops.linear import dispatch_linear
from graphprism.ops.pair_rows import PairRows, active_pairs_pay
from graphprism.ops.relu_sum import dispatch_relu_sum
from graphprism.splitting.check_split import check_split, split_relations

_T = TypeVar("_T")

# Entries of a graph made in a forward pass on a GPU below which indices are not converted to int32: that takes six of
# about fifty launches, and saves less.
_FEWEST_CONVERTED = 1 << 16

# Structures that do not depend on edge weights, and their names in the transposed graph.
_REVERSED = {
    "entries": "entries",
    "incoming": "outgoing",
    "outgoing": "incoming",
    "sender_pairs": "receiver_pairs",
    "receiver_pairs": "sender_pairs",
}


class EdgesByRelation(NamedTuple):
    """Edges sorted by relation.

    Attributes:
        order: (E,) the edges in that order.
        place: (E,) the position of each edge in it.
        counts: number of edges of each relation.
        edge_index: (2, E) their ends, int64.
    """

    order: Tensor
    place: Tensor
    counts: list[int]
    edge_index: Tensor


class Size(NamedTuple):  # torch 2.6 compiles no other subclasses of tuple
    """Numbers of source and target nodes; callable like ``Tensor.size()``."""

    sources: int
    targets: int

    def __call__(self) -> tuple[int, int]:
        """Returns itself: `torch_geometric.nn.summary` calls ``size()`` on every input."""
        return self

    def __repr__(self) -> str:
        return f"({self.sources}, {self.targets})"


class RelationalAdj:
    r"""The edges of a graph with their relations and weights, prepared once and shared by all layers.

    It holds the edges in both directions as sorted structures over pairs (node, relation), numbered
    ``node * num_relations + relation``, each built lazily. Inputs are validated here, once, so that layers need not
    check values again.

    An *entry* is an edge in one relation. With hard types entries are the edges; with soft types an edge has one entry
    for every relation in which its score is not zero (for every relation if the scores require a gradient, or if a
    layer is called with CUDA tensors instead of a `RelationalAdj`).

    Args:
        edge_index: (2, E) integers, source and target of every edge.
        edge_type: (E,) integers in [0, R), or (E, R) scores that put an edge into several relations at once. `None` is
            the plain graph: one relation.
        edge_weight: (E,) the coefficient of every edge. Gradients flow through it.
        num_relations: R. May be omitted if ``edge_type`` is `None` or has R columns.
        num_nodes: N, or (number of sources, number of targets) for a bipartite graph.

    Example:
        >>> edges = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]])
        >>> RelationalAdj(edges, torch.tensor([0, 0, 1, 1]), num_relations=2, num_nodes=3)
        RelationalAdj(num_nodes=3, num_edges=4, num_relations=2)
    """

    def __init__(
        self,
        edge_index: Tensor,
        edge_type: Tensor | None = None,
        edge_weight: Tensor | None = None,
        *,
        num_relations: int | None = None,
        num_nodes: int | tuple[int, int],
    ) -> None:
        self._hold(edge_index, edge_type, edge_weight, num_relations, num_nodes)
        if _may_look_at_values(self.edge_index):
            check_ranges(self._ranges())
            for name, tensor in (("edge_type", edge_type), ("edge_weight", edge_weight)):
                if tensor is not None:
                    check_no_nan(name, tensor)
        else:
            guard_ranges(self._ranges())

    @classmethod
    def from_data(cls, data: Any, num_relations: int | None = None) -> RelationalAdj:
        """The graph of a ``Data`` with ``edge_type``, and ``edge_weight`` if it has one.

        Types that `SplitEdges` wrote are checked to fit the edges (`graphprism.check_split`), and their split is the
        default of ``num_relations``.

        >>> from torch_geometric.data import Data
        >>> from graphprism.transforms import SplitEdges
        >>> path = SplitEdges("degree")(Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3))
        >>> RelationalAdj.from_data(path)
        RelationalAdj(num_nodes=3, num_edges=4, num_relations=3)
        """
        check_homogeneous("data", data)
        check_split(data)
        if getattr(data, "edge_index", None) is None:
            raise ValueError("`data.edge_index` must be given, got `adj_t` alone: leave out T.ToSparseTensor")
        edge_type, weight = data.edge_type, getattr(data, "edge_weight", None)
        known = split_relations(data) if num_relations is None else num_relations
        return cls(data.edge_index, edge_type, weight, num_relations=known, num_nodes=data.num_nodes)

    @classmethod
    def in_forward(
        cls,
        edge_index: Tensor,
        edge_type: Tensor | None,
        edge_weight: Tensor | None,
        num_relations: int,
        size: tuple[int, int],
    ) -> RelationalAdj:
        """The graph of the tensors that a layer was called with, for a single pass.

        On the CPU, indices out of range raise, as in the constructor. On a CUDA device they fail a device-side
        assertion, and there is no host-device sync: neither here nor in the choice of a backend (see ``one_pass``).
        """
        adj = object.__new__(RelationalAdj)  # torch 2.6 cannot compile `cls.__new__(cls)`
        adj._hold(edge_index, edge_type, edge_weight, num_relations, size)
        adj.one_pass = adj.edge_index.is_cuda
        if not torch.compiler.is_compiling():
            try:
                guard_ranges(adj._ranges())
            except ValueError as error:
                raise ValueError(f"{error}{STALE if 'edge_type' in str(error) else ''}") from None
        return adj

    def _hold(
        self,
        edge_index: Tensor,
        edge_type: Tensor | None,
        edge_weight: Tensor | None,
        num_relations: int | None,
        num_nodes: int | tuple[int, int],
    ) -> None:
        """Stores the arguments after checks of shapes, dtypes and devices, not of values."""
        if isinstance(num_nodes, tuple) and torch.compiler.is_compiling():
            self.size: tuple[int, int] = num_nodes  # a conversion to int would specialise dynamic sizes
        elif isinstance(num_nodes, tuple):
            self.size = Size(*check_sizes("num_nodes", num_nodes))
        else:
            check_whole("num_nodes", num_nodes)
            self.size = Size(int(num_nodes), int(num_nodes))
        self.num_relations = _count_relations(edge_type, num_relations)
        self.edge_index, self.edge_type, self.edge_weight = edge_index, edge_type, edge_weight
        # whether to omit structures that need a host-device sync and pay only after several passes
        self.one_pass = False
        self.is_cut = False  # whether it was cut out of a larger graph, for one batch
        self._check()
        self._cache: dict[Any, Any] = {}  # built lazily; not shared with other graphs
        self._sorts: dict[str, Any] = {}  # built lazily; shared by all graphs of the same edges, whatever their weights

    def _ranges(self) -> dict[str, tuple[Tensor, int]]:
        """Index tensors by name, each with the exclusive upper bound of its values."""
        (src, dst), types = self.size, self.edge_type
        ends = {"edge_index[0]": (self.edge_index[0], src), "edge_index[1]": (self.edge_index[1], dst)}
        if self.edge_index.is_cuda and src == dst:  # half of the launches
            ends = {"edge_index": (self.edge_index, src)}
        return ends if types is None or self.is_soft else {**ends, "edge_type": (types, self.num_relations)}

    def _check(self) -> None:
        check_shape("edge_index", self.edge_index, [2, "E"])
        check_dense("edge_index", self.edge_index)
        check_integer("edge_index", self.edge_index)
        if self.edge_index.dtype not in (torch.int32, torch.int64):  # PyTorch treats uint8 as a mask, not as indices
            self.edge_index = self.edge_index.long()
        types, num_edges = self.edge_type, self.num_edges
        if types is not None:
            if types.dim() != 1 or types.size(0) != num_edges:
                soft = self.is_soft and (types.is_floating_point() or types.size(1) == self.num_relations)
                expected = [num_edges, self.num_relations] if soft else [num_edges]
                _check_type_shape(types, expected)
            if types.dim() == 1 and types.is_floating_point():
                raise TypeError(
                    f"`edge_type` must hold integers, got {types.dtype}; pass edge weights as `edge_weight=`"
                )
            check_same_device("edge_type", types, "edge_index", self.edge_index)
            (check_floating if self.is_soft else check_integer)("edge_type", types)
        self._check_weight()

    def _check_weight(self) -> None:
        if self.edge_weight is not None:
            if isinstance(self.edge_weight, Tensor) and self.edge_weight.dim() == 2:
                came = f"{list(self.edge_weight.shape)}; layers that take edge features have `edge_attr=` for them"
                raise ValueError(f"`edge_weight` must have shape [{self.num_edges}], got {came}")
            check_shape("edge_weight", self.edge_weight, [self.num_edges])
            check_floating("edge_weight", self.edge_weight)
            check_same_device("edge_weight", self.edge_weight, "edge_index", self.edge_index)

    @property
    def num_edges(self) -> int:
        """E."""
        return self.edge_index.size(1)

    @property
    def is_soft(self) -> bool:
        """Whether an edge may be in several relations."""
        return self.edge_type is not None and self.edge_type.dim() == 2

    @property
    def device(self) -> torch.device:
        """Where the edges are."""
        return self.edge_index.device

    @property
    def entry_edge(self) -> Tensor | None:
        """(K,) the edge of every entry; `None` where entries are the edges."""
        return self._soft_entries()[0] if self.is_soft else None

    @property
    def src(self) -> Tensor:
        """(K,) the sending node of every entry."""
        return self.edge_index[0] if self.entry_edge is None else self.edge_index[0][self.entry_edge]

    @property
    def dst(self) -> Tensor:
        """(K,) the receiving node of every entry."""
        return self.edge_index[1] if self.entry_edge is None else self.edge_index[1][self.entry_edge]

    @property
    def relation(self) -> Tensor | None:
        """(K,) the relation of every entry; `None` for the plain graph."""
        return self._soft_entries()[1] if self.is_soft else self.edge_type

    @property
    def weight(self) -> Tensor | None:
        """(K,) the weight of every entry, times its score where types are soft; `None` means one."""
        if not self.is_soft:
            return self.edge_weight
        edge, relation = self._soft_entries()
        score = self.scores[edge, relation]
        return score if self.edge_weight is None else score * self.edge_weight[edge]

    @property
    def scores(self) -> Tensor:
        """(E, R) how much of every edge is in every relation, where types are soft."""
        if self.edge_type is None or not self.is_soft:
            raise ValueError(f"`scores` must be read from a graph with soft edge types, got {self!r}")
        return self.edge_type

    def _soft_entries(self) -> tuple[Tensor, Tensor]:
        """Edge and relation of every entry, where types are soft."""
        if "entries" not in self._sorts:
            self._sorts["entries"] = _outside_inference_mode(self._find_soft_entries)
        entries: tuple[Tensor, Tensor] = self._sorts["entries"]
        return entries

    def _find_soft_entries(self) -> tuple[Tensor, Tensor]:
        if self.scores.requires_grad or self.one_pass:  # all are entries: counting nonzero ones would sync
            place = torch.arange(self.scores.numel(), device=self.device)
            return place // self.num_relations, place % self.num_relations
        edge, relation = self.scores.nonzero(as_tuple=True)
        return edge, relation

    @property
    def pair_src(self) -> Tensor:
        """(K,) the pair (sending node, relation) of every entry."""
        return self._pair(self.src)

    @property
    def pair_dst(self) -> Tensor:
        """(K,) the pair (receiving node, relation) of every entry."""
        return self._pair(self.dst)

    def _pair(self, node: Tensor) -> Tensor:
        if self.relation is None:
            return node
        # pair numbers overflow int32 even if node numbers fit
        if node.dtype != torch.int64 and max(self.size) * self.num_relations >= 2**31:
            node = node.long()
        return node * self.num_relations + self.relation

    @property
    def incoming(self) -> Csr:
        """Entries sorted by (receiving node, relation)."""
        if "incoming" not in self._sorts:
            self._sorts["incoming"] = self._sorted(self.dst, self.src, (self.size[1], self.size[0]))
        csr: Csr = self._sorts["incoming"]
        return csr

    @property
    def outgoing(self) -> Csr:
        """Entries sorted by (sending node, relation)."""
        if "outgoing" not in self._sorts:
            self._sorts["outgoing"] = self._sorted(self.src, self.dst, self.size)
        csr: Csr = self._sorts["outgoing"]
        return csr

    def _sorted(self, row: Tensor, col: Tensor, size: tuple[int, int]) -> Csr:
        """The entries by (row, relation); of a small graph for a single pass with as few launches as possible."""
        few_launches = self.one_pass and (is_exported() or row.numel() < _FEWEST_CONVERTED)
        return Csr.build(row, self.relation, col, size, self.num_relations, few_launches)

    @property
    def by_receiver(self) -> Csr:
        """Entries sorted by receiving node; their order within a node is not specified."""
        return self.sender_graph.incoming if active_pairs_pay(self) else self.incoming

    @property
    def sender_pairs(self) -> PairRows:
        """One row per active pair (sending node, relation)."""
        return self._pairs("sender_pairs", self.src, self.size[0])

    @property
    def receiver_pairs(self) -> PairRows:
        """One row per active pair (receiving node, relation)."""
        return self._pairs("receiver_pairs", self.dst, self.size[1])

    def _pairs(self, key: str, node: Tensor, num_nodes: int) -> PairRows:
        if key not in self._sorts:
            relation = torch.zeros_like(node) if self.relation is None else self.relation
            self._sorts[key] = PairRows.build(node, relation, num_nodes)
        pairs: PairRows = self._sorts[key]
        return pairs

    @property
    def sender_graph(self) -> RelationalAdj:
        """The same entries without weights, in one relation: from the rows of `sender_pairs` to the receivers."""
        if "sender_graph" not in self._sorts:
            rows = self.sender_pairs
            edges = torch.stack([rows.entry_row, self.dst.long()])
            size = (rows.relation_row.numel(), self.size[1])
            self._sorts["sender_graph"] = RelationalAdj(edges, num_nodes=size)
        graph: RelationalAdj = self._sorts["sender_graph"]
        return graph

    @property
    def edges_by_relation(self) -> EdgesByRelation:
        """Edges of hard types sorted by relation; a host-device sync on first use."""
        if "edges_by_relation" not in self._cache:
            self._cache["edges_by_relation"] = _outside_inference_mode(self._sort_by_relation)
        found: EdgesByRelation = self._cache["edges_by_relation"]
        return found

    def _sort_by_relation(self) -> EdgesByRelation:
        if self.edge_type is None or self.is_soft:
            raise ValueError(f"edges must have hard types to be sorted by them, got {self!r}")
        order = self.edge_type.argsort(stable=True)
        counts = torch.bincount(self.edge_type, minlength=self.num_relations).tolist()
        return EdgesByRelation(order, order.argsort(), counts, self.edge_index.long()[:, order])

    @property
    def place_in_incoming(self) -> Tensor:
        """(K,) the position of every entry in `incoming`."""
        if "place" not in self._cache:
            place = torch.empty(self.incoming.order.numel(), dtype=torch.long, device=self.device)
            place[self.incoming.order.long()] = torch.arange(place.numel(), device=self.device)
            self._cache["place"] = place
        found: Tensor = self._cache["place"]
        return found

    @classmethod
    def from_sorted(
        cls,
        edge_index: Tensor,
        edge_type: Tensor | None,
        edge_weight: Tensor | None,
        num_nodes: int,
        incoming: Csr,
        outgoing: Csr,
    ) -> RelationalAdj:
        """A batch cut out of a sorted graph, from its own two sorted structures, without checks."""
        adj = cls.__new__(cls)
        adj.size, adj.num_relations = (num_nodes, num_nodes), incoming.num_relations
        adj.edge_index, adj.edge_type, adj.edge_weight = edge_index, edge_type, edge_weight
        adj._cache, adj._sorts = {}, {"incoming": incoming, "outgoing": outgoing}
        adj.one_pass, adj.is_cut = False, True
        return adj

    def prepare(self) -> RelationalAdj:
        """Builds the lazy structures now, for instance in a data loader's worker; returns itself."""
        if active_pairs_pay(self):
            self.sender_graph.prepare()
            self.sender_pairs.nodes.prepare()
        else:
            _ = self.incoming, self.outgoing
        return self

    def values(self, order: Tensor, weight: Tensor | None, dtype: torch.dtype) -> Tensor | None:
        """Entry weights in the ``order`` of one of the sorted structures; cached if they need no gradient."""
        if weight is None:
            return None
        if weight is not self.edge_weight or weight.requires_grad:
            return weight.detach().to(dtype).index_select(0, order)
        kept = self._cache.setdefault("values", {})
        key = (order, dtype)  # the tensor, not its id: a copy of this graph needs the values in its own order
        if key not in kept:
            kept[key] = weight.to(dtype).index_select(0, order)
        value: Tensor = kept[key]
        return value

    @property
    def products(self) -> dict[Any, Any]:
        """What products with this graph look up, kept for those of other layers."""
        found: dict[Any, Any] = self._cache.setdefault("products", {})
        return found

    def _copy(self) -> RelationalAdj:
        """A shallow copy with an empty cache; torch 2.6 cannot compile `copy.copy`."""
        other = object.__new__(RelationalAdj)
        other.edge_index, other.edge_type, other.edge_weight = self.edge_index, self.edge_type, self.edge_weight
        other.one_pass, other.is_cut = self.one_pass, self.is_cut
        other.num_relations, other.size, other._cache, other._sorts = self.num_relations, self.size, {}, {}
        return other

    def with_weight(self, edge_weight: Tensor | None) -> RelationalAdj:
        """The same edges with other weights; the sorted structures are shared."""
        other = self._copy()
        other.edge_weight = edge_weight
        other._check_weight()
        # what compiled code sorts must not outlive its call, see `normalized`
        other._sorts = dict(self._sorts) if torch.compiler.is_compiling() else self._sorts
        return other

    def with_edges(self, edge_index: Tensor, edge_type: Tensor, edge_weight: Tensor | None) -> RelationalAdj:
        """Other edges of hard types between the same nodes, without checks."""
        other = self._copy()
        other.edge_index, other.edge_type, other.edge_weight = edge_index, edge_type, edge_weight
        return other

    def normalized(self, kind: str, dtype: torch.dtype | None = None) -> RelationalAdj:
        """The same edges weighted by `edge_norm`; computed once for each kind and dtype."""
        key = ("norm", kind, dtype) if isinstance(kind, str) else None
        wants_gradient = _want_gradient(self.edge_weight)
        if key in self._cache and not wants_gradient:
            cached: RelationalAdj = self._cache[key]
            return cached
        check_norm(kind, dtype)
        other = _outside_inference_mode(lambda: self._normalize(kind, dtype))
        # a graph of gradients must not outlive its backward pass, nor what compiled code computes its call: it would be
        # compiled again for the graph that has it, and lie in memory that a CUDA graph overwrites
        if not wants_gradient and not torch.compiler.is_compiling():
            self._cache[key] = other
        return other

    def _normalize(self, kind: str, dtype: torch.dtype | None) -> RelationalAdj:
        if not (self.one_pass or torch.compiler.is_compiling()):
            self.prepare()
        return self.with_weight(trusted_norm(self.edge_index, self.size, kind, self.edge_weight, dtype))

    def derived(self, key: Any, build: Callable[[], RelationalAdj]) -> RelationalAdj:
        """The graph made by ``build``, cached under ``key`` unless gradients flow through it."""
        # of what this graph has, too: without gradients, as in evaluation, what was made of it has none
        wants_gradient = _want_gradient(self.edge_weight, self.edge_type)
        if key in self._cache and not wants_gradient:
            cached: RelationalAdj = self._cache[key]
            return cached
        other = _outside_inference_mode(build)
        wants_gradient = wants_gradient or _want_gradient(other.edge_weight, other.edge_type)
        if not wants_gradient and not torch.compiler.is_compiling():
            self._cache[key] = other
        return other

    def merged(self) -> RelationalAdj:
        """The same edges and weights in one relation."""
        size = (self.size[0], self.size[1])

        def build() -> RelationalAdj:
            return RelationalAdj.in_forward(self.edge_index, None, self.edge_weight, 1, size)

        return self if self.num_relations == 1 and not self.is_soft else self.derived("merged", build)

    def transpose(self) -> RelationalAdj:
        """Every edge reversed, with its relation and weight; nothing is sorted again."""
        if "transpose" in self._cache:
            transposed: RelationalAdj = self._cache["transpose"]
            return transposed
        other = self._copy()
        other.edge_index = _outside_inference_mode(lambda: self.edge_index.flip(0))
        other.size = self.size[1], self.size[0]
        if torch.compiler.is_compiling():  # see `normalized`
            return other
        self.prepare()
        other._sorts = {other_key: self._sorts[key] for key, other_key in _REVERSED.items() if key in self._sorts}
        other._cache["values"] = self._cache.setdefault("values", {})  # weights and orders are the same
        self._cache["transpose"] = other
        return other

    @property
    def node_mask(self) -> None:
        """`None`: every row is a node."""
        return

    @property
    def entry_mask(self) -> None:
        """`None`: every entry is an edge."""
        return

    def relational_linear(self, x: Tensor, weight: Tensor, impl: str | None = None) -> Tensor:
        """See `graphprism.ops.relational_linear`."""
        return dispatch_linear(x, self, weight, impl)

    def relational_aggregate(self, x: Tensor, impl: str | None = None) -> Tensor:
        """See `graphprism.ops.relational_aggregate`."""
        return dispatch_aggregate(x, self, impl)

    def relational_sum(self, h: Tensor, weight: Tensor | None = None, impl: str | None = None) -> Tensor:
        """See `graphprism.ops.relational_sum`."""
        return dispatch_sum(h, self, weight, impl)

    def entry_sum(self, rows: Tensor, impl: str | None = None) -> Tensor:
        """See `graphprism.ops.entry_sum`."""
        return dispatch_entry_sum(rows, self, impl)

    def relu_sum(self, h: Tensor, edge_rows: Tensor | None = None, by_relation: bool = False) -> Tensor:
        """See `graphprism.ops.relu_sum.relu_sum`."""
        return dispatch_relu_sum(h, self, edge_rows, by_relation)

    def edge_softmax(self, logit: Tensor) -> Tensor:
        """See `graphprism.ops.edge_softmax`."""
        return dispatch_softmax(logit, self)

    def at_senders(self, h: Tensor) -> Tensor:
        """See `graphprism.ops.at_senders`."""
        self._check_rows(h, self.size[0])
        return gather_nodes(h, self, senders=True)

    def at_receivers(self, h: Tensor) -> Tensor:
        """See `graphprism.ops.at_receivers`."""
        self._check_rows(h, self.size[1])
        return gather_nodes(h, self, senders=False)

    def _check_rows(self, h: Tensor, num_nodes: int) -> None:
        check_tensor("h", h)
        check_same_device("h", h, "adj", self.edge_index)
        relations = self.num_relations if h.dim() > 2 else "F"
        check_shape("h", h, [num_nodes, relations, *("..." for _ in h.shape[2:])])

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> RelationalAdj:
        """The same graph on another device, with the structures built so far."""
        target = _device(device)
        if target.type == self.device.type and target.index in (None, self.device.index):
            return self
        other = self._copy()
        for name in ("edge_index", "edge_type", "edge_weight"):
            tensor = getattr(self, name)
            setattr(other, name, tensor if tensor is None else tensor.to(device, non_blocking=non_blocking))
        other._sorts = {
            key: self._sorts[key].to(device, non_blocking=non_blocking)
            for key in ("incoming", "outgoing")
            if key in self._sorts
        }
        return other

    def __repr__(self) -> str:
        nodes = self.size[0] if self.size[0] == self.size[1] else self.size
        return f"RelationalAdj(num_nodes={nodes}, num_edges={self.num_edges}, num_relations={self.num_relations})"


# Appended to errors about `edge_type`, which may come from a split of other edges.
STALE = "; `gp.check_split(data)` says why"


def _check_type_shape(edge_type: Tensor, expected: list[int]) -> None:
    try:
        check_shape("edge_type", edge_type, expected)
    except ValueError as error:
        raise ValueError(f"{error}{STALE}") from None


def _count_relations(edge_type: Tensor | None, num_relations: int | None) -> int:
    if edge_type is not None:
        check_tensor("edge_type", edge_type)
    if num_relations is None and edge_type is not None:
        if edge_type.dim() != 2:
            raise ValueError("`num_relations` must be given with a 1-D `edge_type`, got None: a relation may be empty")
        num_relations = edge_type.size(1)
    num_relations = 1 if num_relations is None else num_relations
    check_positive("num_relations", num_relations)
    if edge_type is None and num_relations != 1:
        raise ValueError(f"`edge_type` must be given for {num_relations} relations, got None")
    return num_relations


def _device(device: object) -> torch.device:
    try:
        return torch.device(device)  # type: ignore[call-overload,no-any-return]
    except (RuntimeError, TypeError):
        raise ValueError(f"`device` must be a device of torch, got {device!r}") from None


def _outside_inference_mode(build: Callable[[], _T]) -> _T:
    """What ``build`` makes, for a cache: it outlives inference mode, whose tensors cannot be saved for backward."""
    if torch.compiler.is_compiling() or not torch.is_inference_mode_enabled():
        return build()
    with torch.inference_mode(False), torch.no_grad():
        return build()


def _want_gradient(*tensors: Tensor | None) -> bool:
    return any(tensor is not None and tensor.requires_grad for tensor in tensors)


def _may_look_at_values(tensor: Tensor) -> bool:
    # compiled code has no values yet, a stream under capture must not sync, and `meta` tensors have no values
    return not (torch.compiler.is_compiling() or tensor.is_meta or is_captured(tensor))
