"""Splits by a value of the edge itself: similarity of features, curvature, and membership in a community."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from graphprism._checks import check_finite_number, check_shape
from graphprism.splitting.graph import (
    Adjacency,
    GraphLike,
    Parts,
    attribute_of,
    edges_of,
    num_nodes_of,
    parts_of,
    simple_edges,
)
from graphprism.splitting.orderings import chunks_by_paths, mix, pointing_up
from graphprism.splitting.split import Split

# Differences up to this are rounding: a value this close below the threshold counts as equal to it.
_MARGIN = 1e-9


@dataclass(frozen=True, repr=False)
class ByEdgeValue(Split):
    """Splits edges with a value below (0) and at or above (1) a threshold; None is the mean over each graph's edges."""

    name: str
    value: Callable[[GraphLike], Tensor]
    threshold: float | None

    def __call__(self, graph: GraphLike) -> Tensor:
        """Relation of every edge, (E,) long."""
        values = self.value(graph)
        threshold: Tensor | float = _means(graph, values) if self.threshold is None else self.threshold
        return (values >= threshold - _MARGIN).long()

    def __repr__(self) -> str:
        return f"by_{self.name}({'' if self.threshold is None else self.threshold})"


def _means(graph: GraphLike, values: Tensor) -> Tensor:
    """For every edge, the mean over all edges of its graph, self-loops excluded, (E,)."""
    edge_index, parts = edges_of(graph), parts_of(graph)
    counts = (edge_index[0] != edge_index[1]).to(values.dtype)
    part = parts.number[edge_index[0]]
    total = values.new_zeros(parts.count).index_add_(0, part, values * counts)
    number = values.new_zeros(parts.count).index_add_(0, part, counts)
    return (total / number.clamp(min=1))[part]


def by_similarity(threshold: float | None = None) -> Split:
    r"""Splits edges between nodes with dissimilar (0) and with similar (1) features ``x``.

    The similarity of two nodes is the cosine of their rows :math:`\mathbf{x}_i^\top \mathbf{x}_j / (\|\mathbf{x}_i\|
    \|\mathbf{x}_j\|)`, 0 where a row is zero. For features with a single column, such as atom types, it is 1 if they
    are equal, else 0. Similar means at or above ``threshold``, by default the mean over the edges of the graph,
    self-loops excluded. Shapes: (E,) long

    >>> from graphprism.splitting import Graph
    >>> atoms = Graph(torch.tensor([[0, 1], [1, 2]]), num_nodes=3, x=torch.tensor([[6], [6], [8]]))
    >>> by_similarity()(atoms).tolist()
    [1, 0]
    """
    return ByEdgeValue(2, ("unlike", "alike"), "similarity", similarity, _checked(threshold))


def by_curvature(threshold: float | None = None) -> Split:
    r"""Splits edges of negative curvature (0), typically bridges between dense parts of a graph, from the others (1).

    .. math:: \kappa_{ij} = \frac{2}{d_i} + \frac{2}{d_j} - 2 + \frac{2 t_{ij}}{\max(d_i, d_j)} +
        \frac{t_{ij}}{\min(d_i, d_j)}

    where :math:`d` is the degree and :math:`t_{ij}` the number of triangles on the edge, in the simple undirected
    graph: the balanced Forman curvature without its term for rings of four. Negative is below ``threshold``, by
    default 0. A loop has the curvature 0. Time O(E^1.5) at worst. Shapes: (E,) long

    >>> from graphprism.splitting import Graph
    >>> path = Graph(torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
    >>> by_curvature(0.5)(path).tolist()  # the ends of the path have 2/1 + 2/2 - 2 = 1
    [1, 0, 1]
    """
    # `threshold=None` stays None so that the text form omits it; its meaning here is 0, not the mean
    return _ByCurvature(2, ("negative", "positive"), "curvature", curvature, _checked(threshold))


@dataclass(frozen=True, repr=False)
class _ByCurvature(ByEdgeValue):
    def __call__(self, graph: GraphLike) -> Tensor:
        return (self.value(graph) >= (self.threshold or 0.0) - _MARGIN).long()


def _checked(threshold: float | None) -> float | None:
    if threshold is not None:
        check_finite_number("threshold", threshold)
    return None if threshold is None else float(threshold)


# Elements per chunk: temporaries of 32 MB each.
_AT_ONCE = 1 << 22


def similarity(graph: GraphLike) -> Tensor:
    """Similarity of the features of the two ends of every edge, (E,) float64; see `by_similarity`."""
    edge_index, num_nodes = edges_of(graph), num_nodes_of(graph)
    x = attribute_of(graph, "x", "the features of the nodes").detach()
    x = x[:, None] if x.dim() == 1 else x
    check_shape("x", x, [num_nodes, "F"])
    if x.size(1) == 1:
        return (x[edge_index[0], 0] == x[edge_index[1], 0]).double()
    found, rows = [], max(1, _AT_ONCE // max(1, x.size(1)))
    length = torch.cat([part.double().norm(dim=1) for part in x.split(rows)])
    for source, target in edge_index.split(rows, dim=1):
        product = (x[source].double() * x[target].double()).sum(1)
        norm = length[source] * length[target]
        found.append(torch.where(norm > 0, product / torch.where(norm > 0, norm, 1.0), 0.0))
    return torch.cat(found)


def curvature(graph: GraphLike) -> Tensor:
    """Curvature of every edge, (E,) float64; see `by_curvature`."""
    edge_index, num_nodes = edges_of(graph), num_nodes_of(graph)
    edges = simple_edges(edge_index, num_nodes)
    degree = torch.bincount(edges.flatten(), minlength=num_nodes).double()
    low, high = edge_index.amin(0), edge_index.amax(0)
    triangles = edge_triangles(edges, num_nodes)
    pairs = edges[0] * num_nodes + edges[1]
    place = torch.searchsorted(pairs, low * num_nodes + high).clamp_(max=max(pairs.numel() - 1, 0))
    is_loop = low == high
    count = torch.where(is_loop, 0, triangles[place] if pairs.numel() else 0).double()
    one, other = degree[low].clamp(min=1), degree[high].clamp(min=1)
    value = 2 / one + 2 / other - 2 + 2 * count / torch.maximum(one, other) + count / torch.minimum(one, other)
    return torch.where(is_loop, 0.0, value)


def edge_triangles(edges: Tensor, num_nodes: int) -> Tensor:
    """Triangles on each of the edges that `simple_edges` gives, (2, M) -> (M,) long."""
    ahead = pointing_up(edges, num_nodes)
    adjacency = Adjacency.from_edges(ahead, num_nodes)
    pairs = edges[0] * num_nodes + edges[1]  # sorted
    total = torch.zeros_like(pairs)
    for part in chunks_by_paths(ahead, adjacency):
        edge, c = adjacency.lists(part[1])
        a, b = part[0][edge], part[1][edge]
        sides = [torch.minimum(*ends) * num_nodes + torch.maximum(*ends) for ends in ((a, c), (a, b), (b, c))]
        place = torch.searchsorted(pairs, sides[0]).clamp_(max=max(pairs.numel() - 1, 0))
        closed = pairs[place] == sides[0] if pairs.numel() else torch.zeros_like(a, dtype=torch.bool)
        for side in sides:
            at = torch.searchsorted(pairs, side[closed])
            total.index_add_(0, at, torch.ones_like(at))
    return total


def by_community() -> Split:
    """Splits edges between two communities (0) from those within one (1); see `communities`.

    Unlike other splits it can depend on the node numbering, if the communities are ambiguous. Shapes: (E,) long

    >>> from graphprism.splitting import Graph
    >>> two_triangles = torch.tensor([[0, 1, 2, 3, 4, 5, 2], [1, 2, 0, 4, 5, 3, 3]])
    >>> by_community()(Graph(two_triangles, num_nodes=6)).tolist()
    [1, 1, 1, 1, 1, 1, 0]
    """
    return ByCommunity(2, ("between", "within"))


@dataclass(frozen=True, repr=False)
class ByCommunity(Split):
    """The split that `by_community` makes."""

    def __call__(self, graph: GraphLike) -> Tensor:
        """Relation of every edge, (E,) long."""
        source, target = edges_of(graph)
        community = communities(graph)
        return (community[source] == community[target]).long()

    def __repr__(self) -> str:
        return "by_community()"


# Rounds of moving nodes per level, and levels of merging communities: enough for the modularity to converge.
_ROUNDS, _LEVELS = 16, 5


def communities(graph: GraphLike) -> Tensor:
    r"""Communities of large modularity (Louvain), each identified by one of its nodes: (N,) long.

    .. math:: Q = \sum_c \left( \frac{w_c}{2m} - \left( \frac{d_c}{2m} \right)^2 \right)

    on the simple undirected graph, where :math:`w_c` is twice the number of edges within community :math:`c`,
    :math:`d_c` the sum of the degrees of its nodes, and :math:`m` the number of edges of the graph. In every round half
    of the nodes, chosen by a hash of their numbers, move to the neighbouring community with the largest gain; then each
    community becomes a node of the next level. Uses no random-number generator, and a graph gets the same communities
    alone and in a batch.
    """
    num_nodes, parts = num_nodes_of(graph), parts_of(graph)
    edges = simple_edges(edges_of(graph), num_nodes)
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    weight = torch.ones(edges.size(1), dtype=torch.float64, device=edges.device)
    ends = torch.bincount(edges[0], minlength=num_nodes).double()
    owner = torch.arange(num_nodes, device=edges.device)  # for each node, its node at the current level
    local = parts.local()
    for level in range(_LEVELS):
        moved = _move(edges, weight, ends, parts, local, level)
        owner = moved[owner]
        pairs, place = torch.unique(moved[edges[0]] * num_nodes + moved[edges[1]], return_inverse=True)
        weight = weight.new_zeros(pairs.numel()).index_add_(0, place, weight)
        edges = torch.stack([pairs.div(num_nodes, rounding_mode="floor"), pairs % num_nodes])
        ends = torch.zeros_like(ends).index_add_(0, moved, ends)
    return owner


def _move(edges: Tensor, weight: Tensor, ends: Tensor, parts: Parts, local: Tensor, level: int) -> Tensor:
    """The community of every node of one level, identified by its smallest node, (N,)."""
    num_nodes = ends.numel()
    total = ends.new_zeros(parts.count).index_add_(0, parts.number, ends)[parts.number].clamp(min=1)
    own = torch.arange(num_nodes, device=edges.device)
    community, (source, target) = own.clone(), edges
    between = source != target
    source, target, weight = source[between], target[between], weight[between]
    for step in range(_ROUNDS):
        sums = torch.zeros_like(ends).index_add_(0, community, ends)
        # staying is a candidate too, with the node's weight to the other members of its community
        key, place = torch.unique(
            torch.cat([source * num_nodes + community[target], own * num_nodes + community]), return_inverse=True
        )
        joined = ends.new_zeros(key.numel()).index_add_(0, place[: weight.numel()], weight)
        node, choice = key.div(num_nodes, rounding_mode="floor"), key % num_nodes
        rest = sums[choice] - torch.where(choice == community[node], ends[node], 0.0)
        gain = joined - ends[node] * rest / total[node]
        stays = choice == community[node]
        stay = torch.zeros_like(ends).index_add_(0, node[stays], gain[stays])
        best = torch.full_like(ends, -torch.inf).scatter_reduce(0, node, gain, "amax")
        chosen = (gain >= best[node] - _MARGIN).nonzero().view(-1)
        # equal gains: the smallest community wins
        first = torch.full_like(own, num_nodes).scatter_reduce(0, node[chosen], choice[chosen], "amin")
        turn = (mix(mix(local) + (level * _ROUNDS + step)) & 1) == 0
        community = torch.where((best > stay + _MARGIN) & turn, first, community)
    smallest = torch.full_like(own, num_nodes).scatter_reduce(0, community, own, "amin")
    return smallest[community]
