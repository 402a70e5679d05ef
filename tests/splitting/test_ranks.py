"""Ranks of nodes that decide the relations of their edges, as `SplitEdges` writes them."""

import pytest
import torch
from torch_geometric.data import Batch, Data

import graphprism as gp
from graphprism.splitting import ORDERINGS, by_order
from graphprism.splitting.ranks import ranked
from graphprism.testing import molecules, random_graph

from .zoo import directed


def some_graphs() -> list[Data]:
    drawn = [random_graph(40, count, seed=count) for count in (60, 200)]
    return [
        *molecules(5),
        *(Data(torch.randn(40, 3, generator=torch.Generator().manual_seed(1)), graph.edge_index) for graph in drawn),
    ]


@pytest.mark.parametrize("name", ORDERINGS)
def test_ranks_give_the_relations_of_the_values(name):
    for graph in some_graphs():
        split = by_order(name)
        assert ranked(split, graph).relation.equal(split(graph))


@pytest.mark.parametrize("tolerance", [None, 0.0, 1e-3, 0.1])
@pytest.mark.parametrize("dtype", [torch.long, torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_ranks_keep_ties_that_chain(dtype, tolerance):
    values = torch.randn(500, generator=torch.Generator().manual_seed(1)).mul(100).to(dtype)
    if dtype != torch.long:
        values[:3] = torch.tensor([float("inf"), float("inf"), -float("inf")])
    graph = Data(edge_index=random_graph(500, 5000).edge_index, num_nodes=500)
    split = by_order(values, tolerance=tolerance)
    assert ranked(split, graph).relation.equal(split(graph))


def test_ranks_by_hand():
    graph = directed([(0, 1)], 4)
    assert ranked(by_order(torch.tensor([7, 3, 7, 9])), graph).order.tolist() == [1, 0, 1, 2]
    # 1 ties with 1.05 and that with 1.1, but 1 does not tie with 1.1
    chain = by_order(torch.tensor([1.0, 1.05, 1.1, 3.0]), tolerance=0.06)
    assert ranked(chain, graph).order.tolist() == [[0, 1], [1, 2], [2, 2], [3, 3]]


def test_ranks_start_from_zero_in_each_graph_of_a_batch():
    data = [Data(edge_index=random_graph(12, 40, seed=seed).edge_index, num_nodes=12) for seed in range(3)]
    for name in ("degree", "ppr"):
        alone = Batch.from_data_list([gp.SplitEdges(name)(each.clone()) for each in data])
        assert alone.node_order.equal(gp.SplitEdges(name)(Batch.from_data_list(data)).node_order)


def test_ranks_of_a_graph_without_nodes():
    empty = gp.SplitEdges("ppr")(Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=0))
    assert empty.node_order.shape == (0, 2)
    gp.check_split(empty)
