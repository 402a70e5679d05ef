"""Orderings: pure functions from a graph to one value per node."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from graphprism._checks import (
    check_choice,
    check_function,
    check_integer,
    check_no_nan,
    check_positive,
    check_range,
    check_same_device,
    check_shape,
    check_share,
    check_tensor,
    check_type,
    check_whole,
)
from graphprism._text import suggest
from graphprism.splitting.graph import (
    Adjacency,
    GraphLike,
    Parts,
    attribute_of,
    edge_chunks,
    edges_of,
    incoming_sum,
    num_nodes_of,
    parts_of,
    simple_edges,
)

_KINDS = ("out", "in", "total")


def degree(graph: GraphLike, kind: str = "out") -> Tensor:
    """Number of edges that leave each node (``out``), enter it (``in``), or both together (``total``).

    Repeated edges count each time, and a loop counts once in each direction. Shapes: (N,) long

    >>> from graphprism.splitting import Graph
    >>> degree(Graph(torch.tensor([[0, 0, 1], [1, 2, 2]]), num_nodes=3)).tolist()
    [2, 1, 0]
    """
    check_choice("kind", kind, _KINDS)
    edge_index, num_nodes = edges_of(graph), num_nodes_of(graph)
    if kind == "total":
        leaving, entering = (torch.bincount(end, minlength=num_nodes) for end in edge_index)
        return leaving + entering
    return torch.bincount(edge_index[_KINDS.index(kind)], minlength=num_nodes)


def random(graph: GraphLike, seed: int = 0) -> Tensor:
    """A random permutation of 0..n-1 of the n nodes of each graph.

    The permutation is a function of ``seed``, of n and of the edges of the graph: the same alone and in a batch, on
    every machine and in every call, but different for a different graph. Uses no random-number generator. Unlike
    all other orderings it depends on the numbering of the nodes (not on that of the edges). Shapes: (N,) long
    """
    check_type("seed", seed, int, "a whole number")
    parts = parts_of(graph)
    local = parts.local()
    key = _graph_keys(edges_of(graph), parts, local, seed).index_select(0, parts.number)
    # For one key this is a bijection of the node number, so no two nodes of a graph have the same value.
    return parts.rank(mix(key ^ mix(local)))


def _graph_keys(edge_index: Tensor, parts: Parts, local: Tensor, seed: int) -> Tensor:
    """One key per graph, (count,): edges are summed, so that their order does not matter."""
    edges = edge_index.new_zeros(parts.count)
    for source, target in edge_chunks(edge_index):
        edges.index_add_(0, parts.number[source], mix(mix(local[source]) + local[target]))
    size = torch.bincount(parts.number, minlength=parts.count)
    return mix(edges + mix(size + mix(size.new_tensor(_signed(seed)))))


def mix(x: Tensor) -> Tensor:
    """A 64-bit hash that is a bijection (the splitmix64 finaliser); products wrap around."""
    x = x + _signed(0x9E3779B97F4A7C15)
    x = (x ^ _shift(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shift(x, 27)) * _signed(0x94D049BB133111EB)
    return x ^ _shift(x, 31)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Logical right shift: the mask removes the copies of the sign bit."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _signed(x: int) -> int:
    """The signed 64-bit number with the lowest 64 bits of ``x``."""
    return ((x + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def features(graph: GraphLike) -> Tensor:
    """Sum of the raw features of each node, in float64, or exactly in int64 for integer features.

    Shapes: ``graph.x`` (N, F) or (N,) -> (N,)
    """
    x = attribute_of(graph, "x", "the features of the nodes")
    if x.is_complex():
        raise TypeError(f"`x` must hold real numbers, got {x.dtype}")
    num_nodes = num_nodes_of(graph)
    if x.dim() == 1:
        x = x.unsqueeze(1)
    check_shape("x", x, [num_nodes, "F"])
    return x.detach().sum(dim=1, dtype=torch.float64 if x.is_floating_point() else torch.int64)


def ppr(graph: GraphLike, steps: int = 15, restart: float = 0.1) -> Tensor:
    r"""Personalised PageRank with every node as a seed, by a fixed number of steps.

    .. math:: \mathbf{r} \leftarrow (1 - \alpha) \hat{\mathbf{A}} \mathbf{r} + \alpha \mathbf{1}, \qquad
        \hat{A}_{ij} = \frac{A_{ij}}{\sqrt{d_i d_j}}

    from :math:`\mathbf{r} = \mathbf{1}`, where :math:`\alpha` is ``restart``, :math:`A_{ij}` counts the edges from
    :math:`j` to :math:`i`, with exactly one loop at every node, and :math:`d_i = \sum_j A_{ij}`. Shapes: (N,) float64
    """
    check_positive("steps", steps)
    check_share("restart", restart)
    edge_index, num_nodes = edges_of(graph), num_nodes_of(graph)
    loop = edge_index[0] == edge_index[1]
    if bool(loop.any()):
        edge_index = edge_index[:, ~loop]
    scale = (torch.bincount(edge_index[1], minlength=num_nodes) + 1).double().rsqrt()
    rank = torch.ones_like(scale)
    for _ in range(steps):
        sent = scale * rank
        rank = (1 - restart) * scale * (incoming_sum(sent, edge_index) + sent) + restart
    return rank


def core(graph: GraphLike) -> Tensor:
    """Core number of each node: the largest k such that it is in a subgraph where all degrees are at least k.

    Computed on the simple undirected graph: directions, loops and repeated edges do not count. Nodes of too small a
    degree are removed in rounds, and a round visits only the neighbours of the removed nodes: every edge once.
    Shapes: (N,) long
    """
    num_nodes = num_nodes_of(graph)
    edges = simple_edges(edges_of(graph), num_nodes)
    adjacency = Adjacency.from_edges(torch.cat([edges, edges.flip(0)], dim=1), num_nodes)
    degree = adjacency.start.diff()
    number = torch.full_like(degree, -1)  # -1: not removed yet
    left = torch.arange(num_nodes, device=edges.device)
    while left.numel():
        # At level k, only nodes of core number k or more are left: summed over all levels, O(E).
        level = int(degree[left].min())
        _peel(adjacency, degree, number, left[degree[left] == level], level)
        left = left[number[left] < 0]
    return number


# A frontier with fewer edges than this is processed in a Python loop (0.3 us per edge): a round of tensor operations
# costs 50 to 100 us however small it is, and a path of 10^6 nodes has 10^6 rounds.
_SMALL_FRONT = 256


def _is_small(adjacency: Adjacency, front: Tensor) -> bool:
    """Whether few edges leave ``front`` and they are in host memory (a Python loop over GPU memory would be slower)."""
    if front.device.type != "cpu" or front.numel() >= _SMALL_FRONT:
        return False
    return int((adjacency.start[front + 1] - adjacency.start[front]).sum()) < _SMALL_FRONT


def _peel(adjacency: Adjacency, degree: Tensor, number: Tensor, leaving: Tensor, level: int) -> None:
    """Removes the nodes ``leaving`` and all whose degree then drops to ``level``; updates ``degree``, ``number``."""
    while leaving.numel():
        number[leaving] = level
        if _is_small(adjacency, leaving):
            leaving = _peel_by_hand(adjacency, degree, number, leaving, level)
            continue
        _, reached = adjacency.lists(leaving)
        reached = reached[number[reached] < 0]
        degree.index_add_(0, reached, torch.full_like(reached, -1))
        leaving = torch.unique(reached[degree[reached] <= level])


def _peel_by_hand(adjacency: Adjacency, degree: Tensor, number: Tensor, leaving: Tensor, level: int) -> Tensor:
    """Peels in a Python loop while few edges are pending; returns the nodes that are numbered but not removed yet."""
    # memoryviews of the tensors: reading an element takes half the time of reading a numpy scalar.
    start, neighbor = adjacency.start.numpy().data, adjacency.neighbor.numpy().data
    degrees, numbers = degree.numpy().data, number.numpy().data
    stack = leaving.tolist()
    edges = sum(start[node + 1] - start[node] for node in stack)
    while stack and edges < _SMALL_FRONT:
        node = stack.pop()
        first, end = start[node], start[node + 1]
        edges -= end - first
        for place in range(first, end):
            other = neighbor[place]
            if numbers[other] < 0:
                degrees[other] -= 1
                if degrees[other] <= level:
                    numbers[other] = level
                    stack.append(other)
                    edges += start[other + 1] - start[other]
    return torch.tensor(stack, dtype=torch.long)


# Paths per chunk: temporaries of 8 MB each.
_PATHS_PER_CHUNK = 1 << 20
# Most nodes whose triangles are counted by a dense matrix product: a matrix of 128 MB.
_LARGEST_DENSE = 1 << 12
# Multiply-adds of a matrix product in the time of one path: 0.1 ns and 60 ns on one core, rounded down.
_PRODUCTS_PER_PATH = 400


def triangles(graph: GraphLike) -> Tensor:
    """Number of triangles through each node.

    Computed on the simple undirected graph: directions, loops and repeated edges do not count. If every edge points
    from the smaller to the larger (degree, number), no node has more than sqrt(2E) outgoing edges, and a triangle is a
    path a -> b -> c with an edge a -> c: time O(E^1.5) at worst, in bounded memory. Triangles among the nodes of
    largest degree are counted by a dense matrix product if that is faster. Shapes: (N,) long
    """
    num_nodes = num_nodes_of(graph)
    edges = pointing_up(simple_edges(edges_of(graph), num_nodes), num_nodes)
    adjacency = Adjacency.from_edges(edges, num_nodes)
    pairs = (edges[0] * num_nodes + edges[1]).sort().values
    top = _dense_nodes(edges, adjacency)
    count = edges.new_zeros(num_nodes)
    is_top = torch.zeros_like(count, dtype=torch.bool).index_fill_(0, top, True)
    # No edge leaves the top, so a triangle is in it iff its smallest node `a` is.
    from_top = is_top[edges[0]]
    for part in chunks_by_paths(edges[:, ~from_top], adjacency):
        edge, c = adjacency.lists(part[1])
        a, b = part[0][edge], part[1][edge]
        closed = _contains(pairs, a * num_nodes + c)
        corner = torch.cat([a[closed], b[closed], c[closed]])
        count.index_add_(0, corner, torch.ones_like(corner))
    return count.index_add_(0, top, _dense_triangles(edges[:, from_top], top, num_nodes))


def _dense_nodes(edges: Tensor, adjacency: Adjacency) -> Tensor:
    """The last nodes by (degree, number), as many as save most time by a dense matrix product."""
    num_nodes = adjacency.start.numel() - 1
    degree = torch.bincount(edges.flatten(), minlength=num_nodes)
    falling = degree.argsort(stable=True).flip(0)[:_LARGEST_DENSE]
    paths = edges.new_zeros(num_nodes).index_add_(0, edges[0], adjacency.start.diff()[edges[1]])
    size = torch.arange(falling.numel() + 1, device=edges.device)
    saved = -(size**3 // _PRODUCTS_PER_PATH)
    saved[1:] += paths[falling].cumsum(0)
    return falling[: int(saved.argmax())]


def _dense_triangles(edges: Tensor, nodes: Tensor, num_nodes: int) -> Tensor:
    """Triangles through each of ``nodes``, given the ``edges`` between them: the diagonal of A^3, halved."""
    position = edges.new_zeros(num_nodes).index_copy_(0, nodes, torch.arange(nodes.numel(), device=nodes.device))
    low, high = position[edges]
    # float64 is exact here, and not affected by autocast and TF32.
    matrix = torch.zeros(nodes.numel(), nodes.numel(), dtype=torch.float64, device=edges.device)
    matrix[low, high] = matrix[high, low] = 1
    counts = [((rows @ matrix) * rows).sum(dim=1) for rows in matrix.split(256)]
    return torch.cat(counts).long() // 2


def pointing_up(edges: Tensor, num_nodes: int) -> Tensor:
    """Simple edges, each directed from the smaller to the larger (degree, number)."""
    degree = torch.bincount(edges.flatten(), minlength=num_nodes)
    # The smaller number comes first already, so an edge is reversed only if the degree strictly falls.
    turn = degree[edges[0]] > degree[edges[1]]
    return torch.where(turn, edges.flip(0), edges)


def chunks_by_paths(edges: Tensor, adjacency: Adjacency) -> Iterator[Tensor]:
    """Chunks of edges, each with about ``_PATHS_PER_CHUNK`` paths of length two."""
    paths = adjacency.start.diff()[edges[1]].cumsum(0)
    total = int(paths[-1]) if paths.numel() else 0
    limits = _PATHS_PER_CHUNK * torch.arange(1, 1 + total // _PATHS_PER_CHUNK, device=edges.device)
    yield from edges.tensor_split(torch.searchsorted(paths, limits).cpu(), dim=1)


def _contains(sorted_values: Tensor, wanted: Tensor) -> Tensor:
    if sorted_values.numel() == 0:
        return torch.zeros_like(wanted, dtype=torch.bool)
    place = torch.searchsorted(sorted_values, wanted).clamp_(max=sorted_values.numel() - 1)
    return sorted_values[place] == wanted


def eigenvector(graph: GraphLike, steps: int = 100) -> Tensor:
    r"""Eigenvector centrality, by a fixed number of steps of the power method.

    .. math:: \mathbf{w} = (\mathbf{A} + \mathbf{I}) \mathbf{v}, \qquad \mathbf{v} \leftarrow \mathbf{w} / \max_i w_i

    from :math:`\mathbf{v} = \mathbf{1}`, where :math:`A_{ij}` counts the edges from :math:`j` to :math:`i` and the
    maximum is taken within each graph of a batch. The identity lets it converge on bipartite graphs as well.
    Shapes: (N,) float64 in [0, 1]
    """
    check_positive("steps", steps)
    edge_index, parts = edges_of(graph), parts_of(graph)
    # No term is negative, so there is no cancellation: the relative error of every entry is of the order of rounding.
    value = torch.ones(num_nodes_of(graph), dtype=torch.float64, device=edge_index.device)
    for _ in range(steps):
        value = value + incoming_sum(value, edge_index)
        value = value / parts.maximum(value)
    return value


def bfs(graph: GraphLike, root: int | Tensor | None = None) -> Tensor:
    """Number of edges on a shortest path, along the edges, from the nearest root to each node.

    ``root`` None takes all nodes of maximal out-degree of each graph as roots; an int is a node number within each
    graph of a batch; a tensor holds node numbers of the whole batch. A node that no root reaches gets the number of
    nodes of its graph, which exceeds any distance. Shapes: (N,) long

    >>> from graphprism.splitting import Graph
    >>> bfs(Graph(torch.tensor([[0, 1, 3], [1, 2, 2]]), num_nodes=4), root=0).tolist()
    [0, 1, 2, 4]
    """
    parts, adjacency = parts_of(graph), Adjacency.from_edges(edges_of(graph), num_nodes_of(graph))
    distance, step = parts.sizes(), 0
    frontier = _roots(graph, parts, root)
    while frontier.numel():
        distance[frontier] = step
        if _is_small(adjacency, frontier):
            frontier, step = _search_by_hand(adjacency, distance, frontier, step)
            continue
        step += 1
        _, reached = adjacency.lists(frontier)
        frontier = torch.unique(reached[distance[reached] > step])
    return distance


def _search_by_hand(adjacency: Adjacency, distance: Tensor, frontier: Tensor, step: int) -> tuple[Tensor, int]:
    """Searches in a Python loop while few edges leave the frontier; returns the frontier and its distance."""
    start, neighbor, distances = (x.numpy().data for x in (adjacency.start, adjacency.neighbor, distance))
    front, edges = frontier.tolist(), 0
    while front and edges < _SMALL_FRONT:
        step, edges, ahead = step + 1, 0, []
        for node in front:
            for place in range(start[node], start[node + 1]):
                other = neighbor[place]
                if distances[other] > step:
                    distances[other] = step
                    ahead.append(other)
                    edges += start[other + 1] - start[other]
        front = ahead
    return torch.tensor(front, dtype=torch.long), step


def _roots(graph: GraphLike, parts: Parts, root: int | Tensor | None) -> Tensor:
    if root is None:
        out_degree = degree(graph)
        return (out_degree == parts.maximum(out_degree)).nonzero().flatten()
    if isinstance(root, Tensor):
        check_integer("root", root)
        check_range("root", root, num_nodes_of(graph))
        check_same_device("root", root, "edge_index", parts.number)
        return root.long().flatten()
    check_whole("root", root)
    sizes = parts.sizes()
    if sizes.numel() and not 0 <= root < int(sizes.min()):
        raise ValueError(f"`root` must be a node of every graph, so in [0, {int(sizes.min())}), got {root}")
    return (parts.local() == root).nonzero().flatten()


Ordering: TypeAlias = Callable[[GraphLike], Tensor]

ORDERINGS: dict[str, Callable[..., Tensor]] = {
    "degree": degree,
    "random": random,
    "features": features,
    "ppr": ppr,
    "core": core,
    "triangles": triangles,
    "eigenvector": eigenvector,
    "bfs": bfs,
}


_OURS = frozenset(ORDERINGS)


def register_ordering(name: str, ordering: Ordering) -> Ordering:
    """Makes an ordering known by its name, in texts of splits and to ``--split``, in this process.

    Results are found by the settings of a run, of which this is the name: an ordering that was changed needs another
    one.

    .. code-block:: python

        register_ordering("last_first", lambda graph: -torch.arange(graph.num_nodes))
    """
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(f"`name` of an ordering must be a word of a-z, 0-9 and _, got {name!r}")
    check_function("ordering", ordering, "a function from a graph to one value per node")
    if name in _OURS:
        raise ValueError(f"`name` of an ordering must be new, got {name!r}, which is one of this package")
    ORDERINGS[name] = ordering
    return ordering


@dataclass(frozen=True)
class NamedOrdering:
    """An ordering of ``ORDERINGS`` with options, so that it can be written as text: ``ppr(restart=0.2)``.

    >>> NamedOrdering("degree", (("kind", "in"),))
    degree(kind='in')
    """

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    def __call__(self, graph: GraphLike) -> Tensor:
        """Values of the nodes, (N,)."""
        return ORDERINGS[self.name](graph, **dict(self.options))

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.options)})"


@dataclass(frozen=True, eq=False)
class FixedOrder:
    """An ordering that gives the same ``values`` (N,) for every graph."""

    values: Tensor

    def __call__(self, graph: GraphLike) -> Tensor:
        """The values, whatever the graph."""
        return self.values

    def __repr__(self) -> str:
        return f"<order of {self.values.numel()} nodes>"


def resolve_ordering(ordering: str | Tensor | Ordering) -> Ordering:
    """The function for a name of ``ORDERINGS``, a tensor of one value per node, or any function of a graph."""
    if isinstance(ordering, str):
        if ordering not in ORDERINGS:
            must = f"one of {sorted(ORDERINGS)}, a tensor or a function"
            raise ValueError(f"`ordering` must be {must}, got {ordering!r}{suggest(ordering, ORDERINGS)}")
        return ORDERINGS[ordering]
    if isinstance(ordering, Tensor):
        return FixedOrder(ordering)
    if not callable(ordering):
        raise TypeError(f"`ordering` must be a name, a tensor or a function of a graph, got {type(ordering).__name__}")
    return ordering


def order_values(ordering: str | Tensor | Ordering, graph: GraphLike) -> Tensor:
    """Values of an ordering on ``graph``, (N,), checked to be one number per node without NaN."""
    values = resolve_ordering(ordering)(graph)
    check_tensor("order", values)
    check_shape("order", values, [num_nodes_of(graph)])
    check_same_device("order", values, "edge_index", edges_of(graph))
    if not values.is_floating_point():
        values = values.int() if values.dtype == torch.bool else values
        check_integer("order", values)
    check_no_nan("order", values)
    return values
