"""Edge cases of graphs, and the tolerances of comparisons."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism._checks import check_choice, check_whole
from graphprism.splitting import Graph
from graphprism.testing.molecules import molecule


def graph_zoo() -> dict[str, Graph]:
    """Graphs by name: empty, isolated nodes, loops, multi-edges, a hub, regular, directed and a molecule."""
    ring = torch.arange(8)
    return {
        "no-nodes": Graph(torch.empty(2, 0, dtype=torch.long), 0),
        "no-edges": Graph(torch.empty(2, 0, dtype=torch.long), 4),
        "one-node": Graph(torch.empty(2, 0, dtype=torch.long), 1),
        "one-loop": Graph(_edges([(0, 0)]), 1),
        "self-loops": Graph(_edges([(0, 0), (0, 1), (1, 0), (2, 2), (1, 2)]), 3),
        "multi-edges": Graph(_edges([(0, 1), (0, 1), (1, 0), (2, 1), (2, 1), (2, 1)]), 3),
        "hub": Graph(_both(_edges([(0, leaf) for leaf in range(1, 40)])), 40),
        "disconnected": Graph(_both(_edges([(0, 1), (1, 2), (4, 5), (5, 6), (6, 4)])), 8),
        "directed": Graph(_edges([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (0, 4)]), 6),
        "regular": Graph(_both(torch.stack([ring, (ring + 1) % 8])), 8),
        "molecule": molecule(seed=0),
    }


def random_graph(num_nodes: int, num_edges: int, seed: int = 0) -> Graph:
    """Edges drawn with replacement: may contain loops and multi-edges."""
    check_whole("num_nodes", num_nodes, least=1)
    check_whole("num_edges", num_edges)
    generator = torch.Generator().manual_seed(seed)
    return Graph(torch.randint(num_nodes, (2, num_edges), generator=generator), num_nodes)


def _edges(pairs: list[tuple[int, int]]) -> Tensor:
    return torch.tensor(pairs).t().contiguous()


def _both(edge_index: Tensor) -> Tensor:
    return torch.cat([edge_index, edge_index.flip(0)], dim=1)


TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 2e-2}


def tolerance(dtype: torch.dtype) -> dict[str, float]:
    """Keyword arguments of `torch.testing.assert_close`; ``rtol`` equals ``atol``, for values near one."""
    check_choice("dtype", dtype, TOLERANCES)
    return {"rtol": TOLERANCES[dtype], "atol": TOLERANCES[dtype]}
