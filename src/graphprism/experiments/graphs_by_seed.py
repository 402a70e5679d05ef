"""The graph that each seed of Figure 2 runs on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from graphprism._checks import check_range
from graphprism.analysis import FileGraph, read_graph
from graphprism.experiments.find_graph import dataset_file
from graphprism.splitting import Graph
from graphprism.testing import molecules

# Types of atoms in ZINC and in the molecules made here.
_NUM_TYPES = 28


def graphs_by_seed(source: str, seeds: int, data: Path | None) -> tuple[list[Graph], list[int]]:
    """One graph with features in float64 for each seed, and its number in the source.

    Node types become one-hot rows; other features stay as they are.
    """
    if source == "cora":
        cora = largest_component(read_graph(dataset_file("cora", data)))
        return [replace(cora, x=_features(cora).double())] * seeds, [0] * seeds
    if source == "zinc":
        file = read_graph(dataset_file("zinc12k", data))
        numbers = [_draw(seed, _count(file)) for seed in range(seeds)]
        return [_one_hot(graph) for graph in single_graphs(file, numbers)], numbers
    return [_one_hot(graph) for graph in molecules(seeds)], list(range(seeds))


def single_graphs(file: FileGraph, numbers: list[int]) -> list[Graph]:
    """The graphs of a batch that carry these numbers, with their own numbering of nodes."""
    batch = torch.zeros(file.num_nodes, dtype=torch.long) if file.batch is None else file.batch
    graph_of_edge = batch[file.edge_index[0]]
    return [_members(file, batch == number, graph_of_edge == number) for number in numbers]


def largest_component(file: FileGraph) -> Graph:
    """The largest connected component (the first of equals), edges taken both ways, with its features."""
    if file.num_nodes == 0:
        raise ValueError(f"{file.name} must have nodes, got none")
    smallest = torch.arange(file.num_nodes)
    source, target = torch.cat([file.edge_index, file.edge_index.flip(0)], dim=1)
    while True:  # every node takes the smallest number it can see: as many rounds as the component is wide
        seen = smallest.scatter_reduce(0, target, smallest[source], "amin")
        if torch.equal(seen, smallest):
            break
        smallest = seen
    inside = smallest == torch.bincount(smallest).argmax()
    return _members(file, inside, inside[file.edge_index[0]])


def _members(file: FileGraph, nodes: Tensor, edges: Tensor) -> Graph:
    number = nodes.cumsum(0) - 1
    x = None if file.x is None else file.x[nodes]
    return Graph(number[file.edge_index[:, edges]], int(nodes.sum()), x)


def _one_hot(graph: Graph) -> Graph:
    types = _features(graph).flatten().long()
    check_range("x", types, _NUM_TYPES)
    return replace(graph, x=torch.nn.functional.one_hot(types, _NUM_TYPES).double())


def _features(graph: Graph) -> Tensor:
    if graph.x is None or graph.num_nodes == 0:
        raise ValueError("a graph of Figure 2 must have nodes with features `x`, got one without")
    return graph.x


def _count(file: FileGraph) -> int:
    return 1 if file.batch is None else int(file.batch[-1]) + 1


def _draw(seed: int, stop: int) -> int:
    return int(torch.randint(stop, (), generator=torch.Generator().manual_seed(seed)))
