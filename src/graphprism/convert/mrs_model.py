"""The converted model: splits the edges of a call once, before its convolutions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from graphprism._checks import check_integer, check_shape, guard_ranges
from graphprism.convert.current_split import CalledGraph, CurrentSplit, NodesOfType, SplitEdgeIndex
from graphprism.ops.backends import is_exported
from graphprism.ops.relational_adj import STALE
from graphprism.splitting.check_split import check_split, other_split, split_relations


class MRSModel(torch.nn.Module):
    """A model whose convolutions have one weight per relation, with the same arguments as before; made by `to_mrs`.

    A call finds the edges among its arguments: tensors whose names end in ``edge_index``, dictionaries of them by edge
    type, sparse torch tensors whose names end so or in ``adj_t``, `Data` or `HeteroData`; where there are none, in
    lists, tuples and dictionaries, such as snapshots of a graph in time, each of which is split by itself. They are
    split once, and the result is cached while calls pass the same tensor. Relations may be given: ``model(x,
    edge_index, edge_type=types)``, a dictionary for a dictionary or several sets of edges, or ``data.edge_type`` of
    `SplitEdges`; that of another source is refused. They must be given for a part of a graph, such as a sampled batch,
    as orderings need the whole graph. If the model itself has an argument ``edge_type``, the argument goes to the
    model, and the edges are always split here.

    Methods of the model (``model.encode(x, edge_index)``) split as a call does. Nodes of several types are split as
    `SplitEdges` does it: values of a node come from all edges between nodes of its type, and nodes of different types,
    such as senders and receivers with features of their own, are not compared: edges between them are ties. Attributes
    of nodes and edges for the split are dictionaries, by name (``edge_attr`` or ``edge_attr_dict``). A model is not
    thread-safe.

    The ``state_dict`` contains the split; loading it into a model with another split raises, as relations differ.
    Without its ``_extra_state`` it loads unchecked.

    Attributes:
        model: the model with converted convolutions.
        current: the split that they share.
    """

    def __init__(self, model: torch.nn.Module, current: CurrentSplit) -> None:
        super().__init__()
        self.model = model
        self.current = current
        self.training = model.training
        # a model that is a single converted convolution has the arguments of that convolution
        self._names: tuple[str, ...] = getattr(model, "arguments", None) or argument_names(model.forward)
        self._register_load_state_dict_pre_hook(self._before_load)  # type: ignore[no-untyped-call]

    def get_extra_state(self) -> Tensor:
        """The text of the split as a byte tensor, as a ``state_dict`` should hold tensors only."""
        return torch.tensor(list(repr(self.current.split).encode()), dtype=torch.uint8, device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        """Raises for the state of a model with another split."""
        saved, own = bytes(state.tolist()).decode(), repr(self.current.split)
        # the repr of a function or a tensor does not identify it
        if saved != own and "<" not in saved + own:
            raise ValueError(
                f"a state must be of a model with the same split, {own}, got one of {saved}; without its "
                "`_extra_state` it loads unchecked"
            )

    def _before_load(self, state: dict[str, Any], prefix: str, *more: Any) -> None:
        given = [key for key in state if key.startswith(prefix)]
        own = {f"{prefix}{name}" for name in self.state_dict()}
        if given and own.isdisjoint(given):
            more[-1].append(
                f"weights of the plain model must be loaded before the conversion, `to_mrs`, got {given[0]!r}"
            )
        state.setdefault(f"{prefix}_extra_state", self.get_extra_state())

    def forward(self, *args: Any, edge_type: Any = None, **kwargs: Any) -> Any:
        """The model's output."""
        if isinstance(args, torch.fx.Proxy):
            raise TypeError(
                "`to_hetero` and torch.fx must come before the conversion, got a converted model: "
                "`gp.to_mrs(to_hetero(model, metadata))`"
            )
        # named, as `torch.export` takes dynamic shapes of named arguments alone
        if edge_type is not None:
            kwargs["edge_type"] = edge_type
        return self._call(self.model, self._names, *args, **kwargs)

    @property
    def call_signature(self) -> inspect.Signature:
        """The arguments of the model, and ``edge_type``; `graphprism.collapse` and `graphprism.explain` read it."""
        own, kinds = inspect.signature(self.model.forward), inspect.Parameter
        if hasattr(self.model, "arguments"):  # one converted convolution: only nodes and edges are required
            needed = [kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in self._names[:2]]
            return own.replace(parameters=[*needed, kinds("edge_type", kinds.KEYWORD_ONLY, default=None)])
        if "edge_type" in own.parameters:
            return own
        named = [each for each in own.parameters.values() if each.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)]
        return own.replace(parameters=[*named, kinds("edge_type", kinds.KEYWORD_ONLY, default=None)])

    @property
    def takes_relations(self) -> bool:
        """Whether a call takes ``edge_type``, which goes to a model that has an argument of that name itself."""
        return "edge_type" not in self._names

    def __getattr__(self, name: str) -> Any:
        modules = self.__dict__.get("_modules", {})
        if name in modules or "model" not in modules:
            return super().__getattr__(name)
        value = getattr(modules["model"], name)
        if inspect.ismethod(value) and value.__self__ is modules["model"]:
            return partial(self._call, value, argument_names(value))
        return value

    def _call(self, function: Callable[..., Any], names: tuple[str, ...], *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return self._call_alone(function, names, *args, **kwargs)
        with self.current.lock:
            return self._call_alone(function, names, *args, **kwargs)

    def _call_alone(self, function: Callable[..., Any], names: tuple[str, ...], *args: Any, **kwargs: Any) -> Any:
        own_type = "edge_type" in names or "edge_type" not in kwargs
        given = None if own_type else kwargs.pop("edge_type")
        named = {**named_arguments(names, args), **kwargs}
        outer, self.current.entries = self.current.entries, list(self._entries(named, given))
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            weight = named.get("edge_weight")
            if isinstance(weight, Tensor) and not weight.is_floating_point() and str(error).startswith("`edge_weight`"):
                raise TypeError(f"{error}; relations have a name, `edge_type=`") from None
            raise
        finally:
            self.current.leave(outer)

    def _entries(self, named: Mapping[str, Any], given: Any) -> Iterator[SplitEdgeIndex]:
        """The edges of a call with their relations."""
        found = list(_edges(named))
        if given is not None and not isinstance(given, Mapping) and len(found) != 1:
            raise ValueError(f"`edge_type` must be a dictionary for {len(found)} sets of edges, got one tensor")
        for key, edge_index, graph, arguments, types in found:
            wanted = given.get(key) if isinstance(given, Mapping) else given
            if wanted is None and types is not None:
                self._check_written(arguments)
            types = types if wanted is None else wanted
            if types is None:
                if any(arguments.get(key) is not None for key in _SAMPLED):
                    raise ValueError(
                        "`edge_type` must be given for a sampled batch, got None: split the whole graph before "
                        "sampling, with `SplitEdges`"
                    )
                if is_exported():
                    raise ValueError(
                        "`edge_type` must be given to `torch.export`, got None: a split looks at the values of the "
                        "edges, which a trace has not; the exported program gets it in every call"
                    )
                yield self.current.entry_of(key, graph())
            else:
                self._check_types(types, edge_index.size(1) if is_edge_index(edge_index) else edge_index._nnz())
                yield SplitEdgeIndex(edge_index, types)

    def _check_written(self, arguments: Mapping[str, Any]) -> None:
        """Raises unless ``edge_type`` of a ``Data`` is of `SplitEdges`, by a split with as many relations."""
        rule, own = arguments.get("split_rule"), self.current.split.num_relations
        # batches of a loader get theirs by `with_edge_type` or `merge_relations`, without a rule
        if rule is None and not any(arguments.get(key) is not None for key in _SAMPLED):
            raise ValueError(
                "`data.edge_type` must be of `SplitEdges`, got one of another source: rename it, so that the model "
                "splits the edges, or say that these are the relations, `model(data, edge_type=data.edge_type)`"
            )
        stored = Data(split_rule=rule)
        count = split_relations(stored)
        if own is not None and count is not None and count != own:
            raise ValueError(
                f"`data.edge_type` must be of the model's split, {self.current.split!r} with {own} relations, got one "
                f"of a split with {count}"
            )
        if (other := other_split(stored, self.current.split)) is not None:
            raise ValueError(
                f"`data.edge_type` must be of the model's split, {self.current.split!r}, got one of {other}; say "
                "that these are the relations with `model(data, edge_type=data.edge_type)`"
            )

    def _check_types(self, types: Tensor, num_edges: int) -> None:
        count = self.current.num_relations
        try:
            check_shape("edge_type", types, [num_edges, count] if types.dim() == 2 else [num_edges])
            if types.dim() == 1:
                check_integer("edge_type", types)
                guard_ranges({"edge_type": (types, count)})
        except ValueError as error:
            raise ValueError(f"{error}{STALE}") from None

    def extra_repr(self) -> str:
        """The split, and the converted convolutions by name, which PyG's models do not print."""
        layers = [
            f"{name or 'model'}: {_first_line(getattr(each, 'conv', each))}"
            for name, each in self.model.named_modules()
            if hasattr(each, "current") and hasattr(each, "arguments")
        ]
        return "\n".join([f"split={self.current.split!r}, num_relations={self.current.num_relations}", *layers])


def _first_line(conv: object) -> str:
    """What a convolution prints of itself, its name alone where that takes several lines."""
    line = str(conv).partition("\n")[0].rstrip("(")
    return line if line.count("(") == line.count(")") else line.partition("(")[0]


# What loaders write into batches, into nodes or edges of a `HeteroData`.
_SAMPLED = ("n_id", "e_id", "input_id", "num_sampled_edges", "num_sampled_edges_per_hop")
_Size = int | tuple[int, int]
_Kind = tuple[str, str, str]
_Found = tuple[Any, Tensor, Callable[[], CalledGraph], Mapping[str, Any], Tensor | None]


def _edges(named: Mapping[str, Any]) -> Iterator[_Found]:
    """Every set of edges in a call: key, edges, graph for the split, arguments of the edges, relations if given.

    Where no argument has edges, lists, tuples and dictionaries are searched. The number of nodes may depend on values,
    so that the graph is made only for a split.
    """
    own = list(_own_edges(named))
    yield from own
    for name, parts in _containers(named) if not own else ():
        yield from ((f"{name}.{found[0]}", *found[1:]) for found in _edges(parts))


def _containers(named: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Arguments that hold others, with their parts by name; of a list of edges each with its part of other lists."""
    for name, value in named.items():
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            yield name, value
        elif isinstance(value, (tuple, list)) and value and all(map(is_edge_index, value)):
            sequences = {key: each for key, each in named.items() if isinstance(each, (tuple, list))}
            lists = {key: each for key, each in sequences.items() if key != name and len(each) == len(value)}
            alone = {key: each for key, each in named.items() if key not in sequences}
            for number, edges in enumerate(value):
                own = {key: each[number] for key, each in lists.items() if not is_edge_index(each[number])}
                yield f"{name}.{number}", {**alone, **own, "edge_index": edges}
        elif isinstance(value, (tuple, list)) and any(isinstance(each, (Data, HeteroData)) for each in value):
            yield from ((f"{name}.{number}", {"data": each}) for number, each in enumerate(value))
        elif isinstance(value, (tuple, list)):
            yield name, {str(number): each for number, each in enumerate(value)}


def _own_edges(named: Mapping[str, Any]) -> Iterator[_Found]:
    """The edges among the arguments of a call themselves."""
    tensors = {name: value for name, value in named.items() if is_edge_index(value)}
    by_name = {name: value for name, value in tensors.items() if name.endswith("edge_index")} or tensors
    for name, value in by_name.items():
        yield name, value, partial(_graph, value, partial(_size, name, value, named), named), named, None
    for name, value in named.items():
        if name.endswith(("edge_index", "adj_t", "adj")) and is_sparse_adj(value):
            yield name, value, partial(_graph, value, partial(_size_of_sparse, value), named), named, None
    for value in named.values():
        if isinstance(value, HeteroData):
            check_split(value)
            for kind in value.edge_types:
                store = value[kind]
                graph = partial(_graph_of_store, value, kind)
                yield kind, store.edge_index, graph, store.to_dict(), store.get("edge_type")
        elif isinstance(value, Data) and is_sparse_adj(value.get("adj_t")):
            if value.get("edge_type") is not None:
                check_split(value)
            arguments = value.to_dict()
            graph = partial(_graph, value.adj_t, partial(_size_of_sparse, value.adj_t), arguments)
            yield "adj_t", value.adj_t, graph, arguments, value.get("edge_type")
        elif isinstance(value, Data) and value.edge_index is not None:
            if value.get("edge_type") is not None:
                check_split(value)
            arguments = value.to_dict()
            graph = partial(_graph, value.edge_index, partial(_size_of_data, value), arguments)
            yield "edge_index", value.edge_index, graph, arguments, value.get("edge_type")
        elif isinstance(value, Mapping):
            kinds = {
                kind: edges
                for kind, edges in value.items()
                if isinstance(kind, tuple) and len(kind) == 3 and is_edge_index(edges)
            }
            for kind, edges in kinds.items():
                yield kind, edges, partial(_graph_of_kind, kind, kinds, named), {}, None


def is_edge_index(value: object) -> bool:
    """Whether a value is a dense integer tensor (2, E)."""
    return (
        isinstance(value, Tensor)
        and value.layout == torch.strided
        and value.dim() == 2
        # before the size, as a comparison with the number of nodes would limit an exported program
        and value.dtype in (torch.int64, torch.int32)
        and value.size(0) == 2
    )


def is_sparse_adj(value: object) -> bool:
    """Whether a value is a sparse matrix of torch, PyG's ``adj_t``."""
    return isinstance(value, Tensor) and value.layout in _SPARSE and value.dim() == 2


_SPARSE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


def _size_of_data(data: Data) -> int:
    return int(data.num_nodes or 0)


def _graph(edges: Tensor, size: Callable[[], _Size], arguments: Mapping[str, Any]) -> CalledGraph:
    return CalledGraph(edges, size(), arguments)


def _graph_of_store(data: HeteroData, kind: _Kind) -> CalledGraph:
    """The edges of one type of a ``HeteroData``."""
    kinds = {each: data[each].edge_index for each in data.edge_types}
    sizes = {end: int(data[end].num_nodes) for end in (kind[0], kind[2])}
    return _typed(kind, kinds, sizes, data[kind].to_dict(), data[kind[0]].to_dict())


def _graph_of_kind(kind: _Kind, kinds: Mapping[_Kind, Tensor], named: Mapping[str, Any]) -> CalledGraph:
    """The edges of one type of a call with dictionaries by type."""
    sizes = {end: _size_of_type(end, kinds, named) for end in (kind[0], kind[2])}
    return _typed(kind, kinds, sizes, _of_key(kind, named), _of_key(kind[0], named))


def _typed(
    kind: _Kind,
    kinds: Mapping[_Kind, Tensor],
    sizes: Mapping[str, int],
    of_edges: Mapping[str, Any],
    of_nodes: Mapping[str, Any],
) -> CalledGraph:
    source, _, target = kind
    if source != target:
        return CalledGraph(kinds[kind], (sizes[source], sizes[target]), of_edges)
    parts = [edges for each, edges in kinds.items() if each[0] == each[2] == source]
    nodes = NodesOfType(parts, sizes[source], of_nodes)
    return CalledGraph(kinds[kind], sizes[source], {**of_nodes, **of_edges}, nodes)


def _of_key(key: object, named: Mapping[str, Any]) -> dict[str, Any]:
    """Values of one type in the dictionaries of a call, by name."""
    return {
        name.removesuffix("_dict"): value[key]
        for name, value in named.items()
        if isinstance(value, Mapping) and key in value
    }


def _size_of_sparse(adj_t: Tensor) -> _Size:
    receivers, senders = adj_t.shape
    return senders if senders == receivers else (senders, receivers)


def _size(name: str, edges: Tensor, named: Mapping[str, Any]) -> _Size:
    x = named.get("x")
    if isinstance(named.get("num_nodes"), int):
        return int(named["num_nodes"])
    if x is None:
        x = next((value for value in named.values() if isinstance(value, Tensor) and value.is_floating_point()), None)
    # a tuple: torch 2.6 cannot compile `isinstance` with a union
    if isinstance(x, (tuple, list)) and len(x) == 2 and isinstance(x[0], Tensor):
        if x[0] is x[1]:
            return _rows(x[0])
        receivers = _rows(x[1]) if isinstance(x[1], Tensor) else _count(edges[1])
        return _rows(x[0]), receivers
    if not isinstance(x, Tensor):
        return _count(edges)
    if x.dim() == 3 and edges.numel() and int(edges.max()) >= x.size(1):  # (N, steps, F), not (batch, N, F)
        return x.size(0)
    return (_rows(x), _count(edges[1])) if name == "hyperedge_index" else _rows(x)


def _size_of_type(node_type: str, kinds: Mapping[_Kind, Tensor], named: Mapping[str, Any]) -> int:
    """Number of nodes of a type: its rows in a dictionary of the call, else as many as its edges name."""
    for value in named.values():
        if isinstance(value, Mapping) and isinstance(value.get(node_type), Tensor):
            return _rows(value[node_type])
    ends = ((kind[end], edges[row]) for kind, edges in kinds.items() for row, end in enumerate((0, 2)))
    return max(_count(numbers) for name, numbers in ends if name == node_type)


def _rows(x: Tensor) -> int:
    return x.size(-2) if x.is_floating_point() and x.dim() > 1 else x.size(0)


def _count(numbers: Tensor) -> int:
    return int(numbers.max()) + 1 if numbers.numel() else 0


def argument_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names of the positional arguments of a function, in order."""
    kinds = inspect.signature(function).parameters.values()
    return tuple(each.name for each in kinds if each.kind is each.POSITIONAL_OR_KEYWORD)


def named_arguments(names: tuple[str, ...], args: tuple[Any, ...]) -> dict[str, Any]:
    """Positional arguments by name, or by position if a function has no names for them."""
    return {names[i] if i < len(names) else f"argument {i}": value for i, value in enumerate(args)}
