"""The numbers of the page, recomputed by the library: same generator and graphs, the library's layers and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphprism._checks import check_choice, check_positive
from graphprism.analysis import certify, effective_rank, rank_one_distance
from graphprism.nn import MRSGCNConv
from graphprism.play.page import stored_graphs
from graphprism.splitting import Graph, by_function, resolve_split

_Numbers = npt.NDArray[np.uint32]

# Streams of the generator. A layer has four: the matrix of GCN, and one per relation of MRS-GCN.
FEATURES, POINTS, WEIGHTS = 0, 1, 2


def mix32(x: _Numbers) -> _Numbers:
    """A bijective hash of 32-bit integers; products overflow on purpose."""
    x = x + np.uint32(0x9E3779B9)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x21F0AAAD)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x735A2D97)
    return x ^ (x >> np.uint32(15))


def uniforms(seed: int, stream: int, count: int) -> npt.NDArray[np.float64]:
    """The first ``count`` numbers of a stream, in (0, 1).

    >>> uniforms(seed=1, stream=0, count=2).round(6).tolist()
    [0.150916, 0.195576]
    """
    key = mix32(mix32(np.array([seed], np.uint32)) ^ np.uint32(stream))
    return (mix32(key ^ mix32(np.arange(count, dtype=np.uint32))).astype(np.float64) + 0.5) / 2.0**32


def play_graph(name: str, size: int = 24, seed: int = 1) -> Graph:
    """A graph of the page, with both directions of every edge.

    Args:
        name: ``caffeine``, ``cholesterol``, ``karate``, ``path``, ``star``, ``grid`` or ``random``.
        size: Number of nodes of the last four.
        seed: Seed of ``random``.
    """
    stored: Any = stored_graphs()
    check_choice("name", name, (*stored, *_MADE))
    check_positive("size", size)
    if name in stored:
        return undirected(stored[name]["edges"], stored[name]["num_nodes"])
    return undirected(_MADE[name](size, seed), size)


def undirected(edges: list[tuple[int, int]], num_nodes: int) -> Graph:
    """The graph with these edges and their reverse edges."""
    one_way = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    return Graph(torch.cat([one_way, one_way.flip(0)], dim=1), num_nodes)


def _grid(size: int, _: int) -> list[tuple[int, int]]:
    columns = next(count for count in range(1, size + 1) if count * count >= size)
    right = [(at, at + 1) for at in range(size - 1) if (at + 1) % columns]
    return right + [(at, at + columns) for at in range(size - columns)]


def _random(size: int, seed: int) -> list[tuple[int, int]]:
    """Random points in a square, each connected to its three nearest neighbours."""
    points = uniforms(seed, POINTS, 2 * size).reshape(size, 2)
    apart = ((points[:, None] - points) ** 2).sum(2)
    np.fill_diagonal(apart, np.inf)
    nearest = apart.argsort(axis=1, kind="stable")[:, : min(3, size - 1)]
    pairs = {(min(a, b), max(a, b)) for a, row in enumerate(nearest.tolist()) for b in row}
    return sorted(pairs)


_MADE = {
    "path": lambda size, _: [(at, at + 1) for at in range(size - 1)],
    "star": lambda size, _: [(0, at + 1) for at in range(size - 1)],
    "grid": _grid,
    "random": _random,
}


@dataclass(frozen=True, eq=False)
class Curves:
    """Rank-one distance and effective rank before the first layer and after each, (L + 1,) in float64."""

    distance: Tensor
    rank: Tensor


@dataclass(frozen=True, eq=False)
class Simulation:
    """Both networks on a graph, and the certificate's sentence."""

    gcn: Curves
    mrs: Curves
    sentence: str


@torch.no_grad()
def simulate(graph: Graph, split: str, *, seed: int = 1, width: int = 16, layers: int = 64) -> Simulation:
    """Sends random features through both networks with random weights and ReLU, as the page does.

    Args:
        graph: See `play_graph`.
        split: Comma-separated orderings, or ``none`` for one relation.
        seed: Seed of features and weights.
        width: Number of channels.
        layers: Number of layers.

    >>> found = simulate(play_graph("karate"), "degree", layers=32)
    >>> bool(found.gcn.distance[-1] < 0.01), bool(found.mrs.distance[-1] > 0.5)
    (True, True)
    """
    x = torch.from_numpy(2 * uniforms(seed, FEATURES, graph.num_nodes * width) - 1).view(-1, width)
    graph = Graph(graph.edge_index, graph.num_nodes, x)
    one = by_function(lambda given: torch.zeros(given.edge_index.size(1), dtype=torch.long), num_relations=1)  # type: ignore[union-attr]
    chosen = one if split == "none" else resolve_split(split)
    conv = MRSGCNConv(width, width, bias=False, num_relations=chosen.num_relations or 1, start="independent").double()
    plain = MRSGCNConv(width, width, bias=False, num_relations=1, start="independent").double()
    return Simulation(
        gcn=_curves(plain, graph, one(graph), 0, seed, layers),
        mrs=_curves(conv, graph, chosen(graph), 1, seed, layers),
        sentence=certify(graph, chosen, layer=conv).sentence,
    )


def _curves(conv: MRSGCNConv, graph: Graph, edge_type: Tensor, part: int, seed: int, layers: int) -> Curves:
    assert graph.x is not None  # `simulate` gave the graph its features
    states, width = [graph.x], conv.out_channels
    for layer in range(layers):
        drawn = [
            uniforms(seed, WEIGHTS + 4 * layer + part + relation, width * width)
            for relation in range(conv.num_relations)
        ]
        conv.lin.set_(torch.from_numpy((2 * np.stack(drawn) - 1) * np.sqrt(3 / width)).view(-1, width, width))
        states.append(conv(states[-1], graph.edge_index, edge_type).relu())
    batch = torch.arange(layers + 1).repeat_interleave(graph.num_nodes)
    flat = torch.cat(states)
    return Curves(rank_one_distance(flat, batch), effective_rank(flat, batch))
