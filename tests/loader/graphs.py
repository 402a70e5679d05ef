"""Small graphs with everything that a loader has to carry, and networks on them."""

import torch
from torch_geometric.data import Data

from graphprism.transforms import RelationalNorm, SplitEdges


def small_data(num_nodes=60, num_edges=240, seed=0, norm="dir", dtype=torch.float64) -> Data:
    """A directed graph with two hubs, an isolated node, self-loops and an edge that comes twice."""
    generator = torch.Generator().manual_seed(seed)
    source, target = torch.randint(num_nodes - 1, (2, num_edges), generator=generator)
    target[: num_edges // 6] = 3
    source[num_edges // 6 : num_edges // 3] = 5
    edges = torch.stack([source, target])
    edges[:, -1] = edges[:, -2]
    data = Data(
        x=torch.randn(num_nodes, 5, generator=generator, dtype=dtype),
        edge_index=edges,
        y=torch.randint(3, (num_nodes,), generator=generator),
    )
    data = SplitEdges("degree")(data)
    data = data if norm is None else RelationalNorm(norm)(data)
    if data.get("edge_weight") is not None:
        data.edge_weight = data.edge_weight.to(dtype)
    data.edge_number = torch.arange(num_edges)
    return data


def end_workers(loader):
    """Ends the persistent workers of a loader: left to the garbage collector, each of them takes 5 s."""
    iterator = loader._iterator
    getattr(iterator, "iterator", iterator)._shutdown_workers()
