"""Structurally independent nodes get linearly independent outputs from an input of rank one (Theorem 4.4)."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch_geometric.data import Data

from graphprism.analysis import certify
from graphprism.nn import MRSGCNConv
from graphprism.ops import RelationalAdj, relational_aggregate
from graphprism.testing import random_graph


def rank(rows):
    """Numerical rank of rows scaled to length one, so that a short row does not count as none."""
    return int(torch.linalg.matrix_rank(torch.nn.functional.normalize(rows, dim=1), rtol=1e-8))


@given(
    num_nodes=st.integers(3, 10), num_edges=st.integers(4, 30), relations=st.integers(2, 4), seed=st.integers(0, 999)
)
def test_independent_in_degrees_give_independent_outputs(num_nodes, num_edges, relations, seed):
    graph = random_graph(num_nodes, num_edges, seed)
    torch.manual_seed(seed)
    types = torch.randint(relations, (num_edges,))
    weight = torch.rand(num_edges, dtype=torch.double) + 0.1
    adj = RelationalAdj(graph.edge_index, types, weight, num_relations=relations, num_nodes=num_nodes)
    in_degrees = relational_aggregate(torch.ones(num_nodes, 1, dtype=torch.double), adj).squeeze(-1)  # (N, R)
    i, j = 0, 1
    assume(rank(in_degrees[[i, j]]) == 2)
    layer = MRSGCNConv(8, 8, num_relations=relations, bias=False, start="independent").double()
    for strengths in (torch.ones(num_nodes, 1), torch.rand(num_nodes, 1) + 0.5):
        one_signal = strengths.double() @ torch.randn(1, 8).double()  # rank one
        assert rank(layer(one_signal, adj)[[i, j]]) == 2


@given(num_nodes=st.integers(3, 10), num_edges=st.integers(4, 30), seed=st.integers(0, 999))
def test_one_relation_keeps_rank_one(num_nodes, num_edges, seed):
    graph = random_graph(num_nodes, num_edges, seed)
    torch.manual_seed(seed)
    one_signal = torch.randn(num_nodes, 1).double() @ torch.randn(1, 8).double()
    out = MRSGCNConv(8, 8, num_relations=1, bias=False, start="independent").double()(one_signal, graph.edge_index)
    assert int(torch.linalg.matrix_rank(out, rtol=1e-8)) <= 1


def test_two_nodes_that_one_relation_maps_to_parallel_rows_part_with_two():
    # nodes 2 and 3 hear nodes 0 and 1 (two of relation 0 and one of relation 1 against one of each)
    edges = torch.tensor([[0, 1, 1, 0, 1], [2, 2, 2, 3, 3]])
    types = torch.tensor([0, 0, 1, 0, 1])
    torch.manual_seed(0)
    one_signal = torch.ones(4, 1).double() @ torch.randn(1, 8).double()
    weight = torch.ones(5, dtype=torch.double)
    plain = MRSGCNConv(8, 8, num_relations=1, bias=False, start="independent").double()(
        one_signal, edges, edge_weight=weight
    )
    split = MRSGCNConv(8, 8, num_relations=2, bias=False, start="independent").double()(
        one_signal, edges, types, weight
    )
    assert rank(plain[2:]) == 1
    assert rank(split[2:]) == 2


@pytest.mark.parametrize("norm", ["sym", "dir"])
@given(
    num_nodes=st.integers(3, 10), num_edges=st.integers(4, 30), relations=st.integers(2, 4), seed=st.integers(0, 999)
)
def test_layer_has_the_certified_rank_on_directed_graphs(norm, num_nodes, num_edges, relations, seed):
    graph = random_graph(num_nodes, num_edges, seed)
    torch.manual_seed(seed)
    types = torch.randint(relations, (num_edges,))
    data = Data(edge_index=graph.edge_index, edge_type=types, num_nodes=num_nodes)
    adj = RelationalAdj(graph.edge_index, types, num_relations=relations, num_nodes=num_nodes)
    layer = MRSGCNConv(8, 8, num_relations=relations, bias=False, start="independent").double()
    one_signal = torch.ones(num_nodes, 1).double() @ torch.randn(1, 8).double()
    out = layer(one_signal, adj if norm == "sym" else adj.normalized("dir", torch.double))
    assert rank(out) >= certify(data, num_relations=relations, aggregation=norm).rank


def test_certificate_does_not_count_edges_that_the_layer_silences():
    # no edge enters the senders 0 and 1, so that the symmetric norm silences all edges
    edges, types = torch.tensor([[0, 1, 0, 1], [2, 2, 3, 3]]), torch.tensor([0, 0, 1, 1])
    out = MRSGCNConv(8, 8, num_relations=2, bias=False, start="independent")(torch.randn(4, 8), edges, types)
    assert out.count_nonzero() == 0
    data = Data(edge_index=edges, edge_type=types, num_nodes=4)
    assert certify(data, aggregation="sym").rank == 0
    assert certify(data, aggregation="dir").rank == 2
