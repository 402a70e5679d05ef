"""Inputs that all ops are tested on: every graph of the zoo, hard and soft types, weights that want a gradient."""

import torch
from torch import Tensor

from graphprism.ops import RelationalAdj
from graphprism.testing import graph_zoo, random_graph

GRAPHS = {**graph_zoo(), "random": random_graph(30, 200)}


def make_adj(name: str, num_relations: int = 3, soft: bool = False, dtype: torch.dtype = torch.double) -> RelationalAdj:
    graph = GRAPHS[name]
    generator = torch.Generator().manual_seed(1)
    num_edges = graph.edge_index.size(1)
    types = torch.randint(num_relations, (num_edges,), generator=generator)
    if soft:
        types = torch.rand(num_edges, num_relations, generator=generator, dtype=dtype)
        types = (types * (types > 0.3)).requires_grad_()
    weight = torch.rand(num_edges, generator=generator, dtype=dtype).requires_grad_()
    return RelationalAdj(graph.edge_index, types, weight, num_relations=num_relations, num_nodes=graph.num_nodes)


def normal(*size: int, dtype: torch.dtype = torch.double, seed: int = 0) -> Tensor:
    numbers = torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
    return (numbers / 2).to(dtype).requires_grad_()
