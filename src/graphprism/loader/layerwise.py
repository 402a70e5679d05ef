"""Exact layer-wise inference: every convolution runs on the whole graph, in chunks of nodes that fit into memory."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing
from torch_geometric.sampler import NodeSamplerInput

from graphprism._caches import without_caches
from graphprism._checks import check_positive, check_type
from graphprism.loader.loaders import part_of
from graphprism.loader.neighbor_sampler import NeighborSampler
from graphprism.nn.conv import DirConv
from graphprism.ops import RelationalAdj
from graphprism.splitting import check_split

# Neighbourhoods that a layer may read: direction and hops. Degree norms read one hop further than sums.
_REACHES = (("in", 1), ("both", 1), ("in", 2), ("both", 2))
_TRIED_NODES = 8
# Relative differences that can come from the order of summation alone.
_SAME, _SAME_HALF = {torch.float64: 1e-9, torch.float32: 1e-4}, 0.05


def layerwise(
    model: torch.nn.Module,
    data: Data,
    *,
    batch_size: int = 65_536,
    device: torch.device | str | None = None,
    **arguments: Any,
) -> Tensor:
    """The output of a model on a whole graph, computed layer by layer in chunks of nodes: exact, without sampling.

    Every convolution gets ``batch_size`` nodes at a time, with all of their neighbours; the operations between
    convolutions run on all nodes. Memory is that of the states of two layers, not of all messages. See `in_parts` for
    the supported layers.

    Args:
        model: a `GNN`, a model of PyG, one that `to_mrs` made, or any other that passes ``edge_index`` on to its
            convolutions. It is run in evaluation mode, without gradients.
        data: a ``Data``; its attributes are passed to the arguments of the same name, ``edge_type`` if it passes
            `check_split`. ``x`` may be memory-mapped, and of half precision: rows are cast to the dtype of the weights
            chunk by chunk.
        batch_size: nodes per chunk of a convolution.
        device: device of the convolutions, see `in_parts`; by default that of the model.
        arguments: further arguments of the model; they override those of ``data``.

    Example:
        >>> from graphprism.nn import GNN
        >>> from graphprism.transforms import SplitEdges
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> data = SplitEdges("degree")(Data(x=torch.eye(4), edge_index=path))
        >>> model = GNN("mrs-sage", 8, 2, num_layers=2, in_channels=4)
        >>> out = layerwise(model, data, batch_size=3)
        >>> torch.allclose(out, model(data.x, data.edge_index, data.edge_type), atol=1e-6)
        True
    """
    check_type("model", model, torch.nn.Module, "a torch.nn.Module")
    check_type("data", data, Data, "a torch_geometric Data")
    signature = getattr(model, "call_signature", None) or inspect.signature(model.forward)
    stored = {name: data[name] for name in signature.parameters if data.get(name) is not None}
    if not stored and any(each.kind is each.VAR_POSITIONAL for each in signature.parameters.values()):
        raise ValueError(
            f"`model` must name its arguments, got {type(model).__name__}: call it inside `in_parts` with its own"
        )
    if stored.get("edge_type") is not None and "edge_type" not in arguments:
        check_split(data)
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), in_parts(model, batch_size, device=device):
            _check_arguments(model, signature, {*stored, *arguments})
            out: Tensor = model(**{**stored, **arguments})
            return out
    finally:
        model.train(training)


def _check_arguments(model: torch.nn.Module, signature: inspect.Signature, given: set[str]) -> None:
    """Raises for an argument of the model that is missing, and says how to pass it."""
    kinds = inspect.Parameter
    for name, each in signature.parameters.items():
        is_open = each.default is kinds.empty and each.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
        if is_open and name not in given:
            ways = f"pass it, such as layerwise(model, data, {name}=data.edge_index)"
            raise ValueError(f"`data` must have the argument `{name}` of {type(model).__name__}, got none: {ways}")


@contextmanager
def in_parts(
    model: torch.nn.Module,
    batch_size: int,
    *,
    rank: int = 0,
    ranks: int = 1,
    add: Callable[[Tensor], Tensor] | None = None,
    kept: dict[Any, Any] | None = None,
    device: torch.device | str | None = None,
) -> Iterator[None]:
    """Context in which convolutions of a model run on ``batch_size`` nodes at a time; call the model as usual.

    A layer gets the edges around its nodes that it reads. In its first call this neighbourhood is found by a test on
    some nodes: one hop for sums, means and attention, both directions for `DirConv`, two hops for layers that compute
    norms from degrees (PyG's ``GCNConv``). A graph that is too small for the test is one chunk.

    Args:
        model: the model.
        batch_size: nodes per chunk of a convolution.
        rank: rank of this process, if several share the work on one graph.
        ranks: number of processes.
        add: all-reduce (sum) of a tensor over all processes; needed if there are several.
        kept: a cache, initially an empty dictionary; pass it again with the same model and graph to reuse the prepared
            chunks and neighbourhoods.
        device: device of the convolutions, chunk by chunk, while graph, states and the rest of the model stay on
            theirs: a graph that does not fit a GPU stays on the CPU, with the model. By default that of the model.

    Raises:
        ValueError: A layer reads further than two hops, such as ``APPNP``, or the model has no convolution.
    """
    check_positive("batch_size", batch_size)
    layers = list(_layers(model))
    if not layers:
        raise ValueError(f"`model` must have a convolution to run in parts, got {type(model).__name__} without")
    kept = {} if kept is None else kept
    hooks, homes = [], [_device(layer) for layer in layers]
    for number, layer in enumerate(layers):
        if device is not None:
            layer.to(device)
        layer.forward = _PartialLayer(layer, batch_size, (rank, ranks), add, kept, number, device)
        # a hook makes `GNN` call the layer as a whole
        hooks.append(layer.register_forward_hook(lambda *_: None))
    try:
        with without_caches(model):
            yield
    finally:
        for layer, hook, home in zip(layers, hooks, homes, strict=False):
            del layer.forward  # restores the method of the class
            hook.remove()
            if device is not None and home is not None:
                layer.to(home)


def _layers(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The outermost message-passing modules: PyG's, ours, and those converted by `to_mrs`."""
    is_converted = hasattr(module, "current") and hasattr(module, "arguments")
    if is_converted or isinstance(module, MessagePassing | DirConv):
        yield module
        return
    for child in module.children():
        yield from _layers(child)


class _Parts:
    """Neighbourhoods of the nodes of a graph, prepared lazily."""

    def __init__(self, edge_index: Tensor, num_nodes: int) -> None:
        self.data = Data(edge_index=edge_index, num_nodes=num_nodes)
        self.samplers: dict[str, NeighborSampler] = {}

    def around(self, node: Tensor, direction: str, hops: int) -> Any:
        """Nodes, the given ones first, and all edges at distance below ``hops``."""
        if direction not in self.samplers:
            self.samplers[direction] = NeighborSampler(self.data, [-1], direction=direction)
        sampler = self.samplers[direction]
        sampler.num_neighbors = [-1] * hops
        return sampler.sample_from_nodes(NodeSamplerInput(None, node))

    def some_nodes(self) -> Tensor:
        """Test nodes: ends of edges, preferably of paths of two edges."""
        edge_index, num_nodes = self.data.edge_index, int(self.data.num_nodes)
        degree = torch.bincount(edge_index[1], minlength=num_nodes)
        follows = (degree[edge_index[0]] > 0).nonzero().view(-1)
        edges = follows if follows.numel() else torch.arange(edge_index.size(1), device=edge_index.device)
        if not edges.numel():
            return edges
        generator = torch.Generator().manual_seed(0)
        chosen = torch.randint(edges.numel(), (_TRIED_NODES // 2,), generator=generator)
        ends: Tensor = edge_index[:, edges[chosen.to(edges.device)]].flatten()
        found: Tensor = ends.unique()
        return found


class _PartialLayer:
    """The forward pass of a layer, in chunks of nodes.

    Args:
        layer: the layer.
        batch_size: nodes per chunk.
        division: rank of this process and number of processes.
        add: all-reduce (sum) of a tensor over all processes.
        kept: cache of the chunks, shared by the layers of a model, and of the neighbourhood that each layer reads.
        number: index of the layer in the model.
        device: device of the layer; None for that of its input.
    """

    def __init__(
        self,
        layer: torch.nn.Module,
        batch_size: int,
        division: tuple[int, int],
        add: Callable[[Tensor], Tensor] | None,
        kept: dict[Any, Any],
        number: int,
        device: torch.device | str | None = None,
    ) -> None:
        self.layer, self.batch_size, self.kept, self.number = layer, batch_size, kept, number
        self.division, self.add, self.device = division, add if division[1] > 1 else None, device
        self.whole: Callable[..., Any] = layer.forward
        self.names = getattr(layer, "arguments", None) or tuple(inspect.signature(layer.forward).parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        named = {**dict(zip(self.names, args, strict=False)), **kwargs}
        x, graph = named.get("x"), named.get("edge_index")
        takes_graph = isinstance(graph, RelationalAdj) or (isinstance(graph, Tensor) and not graph.is_sparse)
        if not isinstance(x, Tensor) or not takes_graph:
            came = f"{type(x).__name__} and {type(graph).__name__}"
            raise TypeError(
                f"a layer in parts must be called with tensors `x` and `edge_index`, or a `RelationalAdj`, got {came} "
                f"in {type(self.layer).__name__}"
            )
        if isinstance(graph, RelationalAdj):
            named["edge_index"] = graph = self._weighted(graph, x)
        elif hasattr(self.layer, "current") and named.get("edge_type") is None:
            named["edge_type"] = self.layer.current.lookup(graph).edge_type  # type: ignore[union-attr,operator]
        parts = self._parts(graph, x.size(0))
        if self.number not in self.kept:
            self.kept[self.number] = self._find_reach(named, parts)
        reach = self.kept[self.number]
        if reach is None:
            whole = {**named, "x": x.to(_dtype(self.layer, x))}
            return self._back(self.whole(**{name: _moved(value, self.device) for name, value in whole.items()}), x)
        # a process without nodes computes one of another process, to learn the shape of the output
        own = part_of(x.size(0), *self.division)
        nodes = torch.arange(own[0], max(own[1], own[0] + 1), device=parts.data.edge_index.device)
        out = edge_out = None
        for node in nodes.split(self.batch_size):
            around = parts.around(node, *reach)
            found = self._back(self._run(named, around), x)
            rows, edges = found if isinstance(found, tuple) else (found, None)
            out = rows.new_zeros(x.size(0), *rows.shape[1:]) if out is None else out
            out[node] = rows[: node.numel()]
            if edges is not None:  # states of edges, each computed in the chunk of its receiver
                edge_out = edges.new_zeros(_num_edges(graph), *edges.shape[1:]) if edge_out is None else edge_out
                mine = around.col < node.numel()
                edge_out[around.edge[mine]] = edges[mine]
        assert out is not None
        if self.add is not None:
            if own[0] == own[1]:
                out.zero_()
            out, edge_out = self.add(out), None if edge_out is None else self.add(edge_out)
        return out if edge_out is None else (out, edge_out)

    def _back(self, found: Any, x: Tensor) -> Any:
        """Moves the output to the device of the input, in the dtype of the weights even under autocast."""
        if self.device is None:
            return found
        if isinstance(found, tuple):
            return tuple(self._back(each, x) for each in found)
        return found.to(x.device, _dtype(self.layer, x)) if isinstance(found, Tensor) else found

    def _weighted(self, adj: RelationalAdj, x: Tensor) -> RelationalAdj:
        """The graph with the layer's coefficients, from the degrees of the whole graph."""
        normalizes: Any = getattr(self.layer, "_normalizes", None)
        if normalizes is None or adj.edge_weight is not None or not normalizes(adj):
            return adj
        if getattr(self.layer, "add_self_loops", False) or getattr(self.layer, "normalize", None) is not None:
            return adj
        return adj.normalized("dir" if isinstance(self.layer, DirConv) else self.layer.edge_norm, _dtype(self.layer, x))  # type: ignore[arg-type]

    def _parts(self, graph: Any, num_nodes: int) -> _Parts:
        edges = graph.edge_index if isinstance(graph, RelationalAdj) else graph
        key = (edges.data_ptr(), edges.size(1), num_nodes)
        if key not in self.kept:
            self.kept[key] = _Parts(edges, num_nodes)
        found: _Parts = self.kept[key]
        return found

    def _run(self, named: dict[str, Any], around: Any, drawn: _Drawn | None = None) -> Any:
        """Runs the layer on one chunk, with ``drawn`` on random features of its nodes and edges."""
        graph, count = named["edge_index"], named["x"].size(0)
        edges = _num_edges(graph)
        local = torch.stack([around.row, around.col])
        given: dict[str, Any] = {}
        for name, value in named.items():
            if name == "edge_index":
                given[name] = local if isinstance(value, Tensor) else _part_of_adj(value, local, around)
            elif name == "x":
                rows = value[around.node] if drawn is None else drawn.of_nodes(value, around.node)
                given[name] = rows.to(_dtype(self.layer, value))
            elif isinstance(value, Tensor) and value.dim() and name.startswith("edge_") and value.size(0) == edges:
                given[name] = value[around.edge] if drawn is None else drawn.of_edges(value, around.edge)
            elif isinstance(value, Tensor) and value.dim() and value.size(0) == count:
                given[name] = value[around.node]
            else:
                given[name] = value
        return self.whole(**{name: _moved(value, self.device) for name, value in given.items()})

    def _find_reach(self, named: dict[str, Any], parts: _Parts) -> tuple[str, int] | None:
        """The neighbourhood that the layer reads; None if the graph is too small to test, and becomes one chunk."""
        nodes = parts.some_nodes()
        for direction, hops in _REACHES:
            same = [self._reads_no_further(named, parts, node, direction, hops) for node in nodes.split(1)]
            if all(each is None for each in same):
                return None
            if all(each is not False for each in same):
                return direction, hops
        raise ValueError(
            f"a layer in parts must read at most two hops around a node, got {type(self.layer).__name__}, which reads "
            "further: run the model on the whole graph"
        )

    def _reads_no_further(
        self, named: dict[str, Any], parts: _Parts, node: Tensor, direction: str, hops: int
    ) -> bool | None:
        """Whether edges further away do not affect a node; None if there are none."""
        near, far = parts.around(node, direction, hops), parts.around(node, "both", hops + 1)
        if near.edge.numel() == far.edge.numel():
            return None
        # of the user's own features all that are near may be zero, and hide what is read of them
        drawn = _Drawn(far)
        found = [self._run(named, around, drawn) for around in (near, far)]
        mine, further = (each[0][0] if isinstance(each, tuple) else each[0] for each in found)
        bound = _SAME.get(mine.dtype, _SAME_HALF) * float(further.abs().max())
        return float((mine - further).abs().max()) <= bound


class _Drawn:
    """Random features of the nodes and edges of a chunk, the same for each of them in every chunk inside it.

    Types, which are integers, stay as they are; features of edges, such as weights, are positive.
    """

    def __init__(self, around: Any) -> None:
        self.nodes, self.edges = around.node.sort().values, around.edge.sort().values

    def of_nodes(self, x: Tensor, nodes: Tensor) -> Tensor:
        """Rows of ``nodes`` in place of those of ``x``."""
        return self._rows(x, nodes, self.nodes, torch.randn)

    def of_edges(self, value: Tensor, edges: Tensor) -> Tensor:
        """Rows of ``edges`` in place of those of ``value``."""
        return self._rows(value, edges, self.edges, torch.rand)

    @staticmethod
    def _rows(value: Tensor, chosen: Tensor, known: Tensor, draw: Callable[..., Tensor]) -> Tensor:
        if not value.is_floating_point():
            return value[chosen]
        drawn = draw(known.numel(), *value.shape[1:], generator=torch.Generator().manual_seed(0))
        return drawn.to(value.device, value.dtype)[torch.searchsorted(known, chosen).to(value.device)]


def _device(module: torch.nn.Module) -> torch.device | None:
    return next((each.device for each in module.parameters()), None)


def _moved(value: Any, device: torch.device | str | None) -> Any:
    """Moves tensors and graphs to a device; returns other values, or all if it is None, unchanged."""
    return value.to(device) if device is not None and isinstance(value, Tensor | RelationalAdj) else value


def _num_edges(graph: Any) -> int:
    return graph.num_edges if isinstance(graph, RelationalAdj) else int(graph.size(1))


def _dtype(layer: torch.nn.Module, x: Tensor) -> torch.dtype:
    """The dtype of a layer's input: that of its weights."""
    weights = (each.dtype for each in layer.parameters() if each.is_floating_point())
    return next(weights, x.dtype) if x.is_floating_point() else x.dtype


def _part_of_adj(adj: RelationalAdj, local: Tensor, around: Any) -> RelationalAdj:
    types = None if adj.edge_type is None else adj.edge_type[around.edge]
    weight = None if adj.edge_weight is None else adj.edge_weight[around.edge]
    size = around.node.numel()
    return RelationalAdj.in_forward(local, types, weight, adj.num_relations, (size, size))
