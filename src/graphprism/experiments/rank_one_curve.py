"""One run of Figure 2: one model, one graph, one seed."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.analysis.collapse import rank_one_distance
from graphprism.experiments.specs import Figure2Spec
from graphprism.nn.models import make_conv
from graphprism.ops import RelationalAdj
from graphprism.splitting import Graph, resolve_split

# A state is scaled once it leaves [2^-500, 2^500]: by a power of two, so that no digit changes, and no nearer to one
# than 2^-100 or 2^100, where a bias is still all or nothing and attention uniform or hard: the function stays the same.
_LARGEST, _FACTOR = 2.0**500, 2.0**400


@torch.no_grad()
def rank_one_curve(model: str, graph: Graph, seed: int, spec: Figure2Spec) -> Tensor:
    """Rank-one distance after each of ``spec.layers`` iterations, (L,) in float64; NaN where the state is all zeros.

    The global random state is left as it was.

    >>> from graphprism.testing import molecule
    >>> graph = molecule(0)
    >>> one_hot = torch.nn.functional.one_hot(graph.x.view(-1)).double()
    >>> curve = rank_one_curve("gcn", Graph(graph.edge_index, graph.num_nodes, one_hot), 0, Figure2Spec(layers=64))
    >>> tuple(curve.shape), bool(curve[-1] < curve[0] / 10)
    ((64,), True)
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        states = _states(model, graph, spec)  # (L, N, F)
    layer = torch.arange(spec.layers).repeat_interleave(graph.num_nodes)
    return rank_one_distance(states.flatten(0, 1), layer)


def _states(model: str, graph: Graph, spec: Figure2Spec) -> Tensor:
    assert graph.x is not None  # `graphs_by_seed` gives every graph its features
    split = resolve_split(spec.split)
    x: Tensor = torch.nn.Linear(graph.x.size(1), spec.channels, dtype=torch.float64)(graph.x)
    # In evaluation mode the batch norms of GatedGCN are the identity: they would otherwise depend on the graph's size.
    conv = make_conv(model, spec.channels, split.num_relations or 1).double().eval()
    edges = _edges(graph, split(graph), int(conv.num_relations))  # type: ignore[arg-type]  # a number, not a module
    states = x.new_empty(spec.layers, *x.shape)
    for state in states:
        conv.reset_parameters()  # type: ignore[operator]  # weights are not shared between iterations
        x = _in_range(conv(x, edges).relu())
        state.copy_(x)
    return states


def _edges(graph: Graph, edge_type: Tensor, num_relations: int) -> RelationalAdj:
    """The graph, prepared once for all iterations; a plain convolution has one relation."""
    types = edge_type if num_relations > 1 else None
    return RelationalAdj(graph.edge_index, types, num_relations=num_relations, num_nodes=graph.num_nodes)


def _in_range(x: Tensor) -> Tensor:
    largest = float(x.abs().max())
    if largest > _LARGEST:
        return x / _FACTOR
    return x * _FACTOR if 0 < largest < 1 / _LARGEST else x
