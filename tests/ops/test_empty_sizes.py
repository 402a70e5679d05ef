"""Every op where a size is zero: no nodes, no edges, no input or output channels."""

import pytest
import torch

from graphprism.ops import (
    RelationalAdj,
    at_receivers,
    at_senders,
    edge_softmax,
    entry_sum,
    relational_aggregate,
    relational_linear,
    relational_sum,
)
from graphprism.ops.batched.padded_adj import PaddedAdj
from graphprism.ops.sparse_features import sparse_transform
from graphprism.testing import assert_implementations_agree
from tests.ops.cases import normal

IMPLEMENTATIONS = ("reference", "scatter", "csr")
nodes_and_edges = pytest.mark.parametrize(("num_nodes", "num_edges"), [(0, 0), (1, 0), (4, 0), (1, 3), (4, 6)])
relations = pytest.mark.parametrize("num_relations", [1, 3])
channels = pytest.mark.parametrize("channels", [(0, 0), (0, 2), (3, 0), (3, 2)])


def make(num_nodes, num_edges, num_relations, soft=False):
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(max(1, num_nodes), (2, num_edges), generator=generator)
    types = torch.randint(num_relations, (num_edges,), generator=generator)
    if soft:
        types = torch.rand(num_edges, num_relations, generator=generator, dtype=torch.double).requires_grad_()
    weight = torch.rand(num_edges, generator=generator, dtype=torch.double).requires_grad_()
    return RelationalAdj(edges, types, weight, num_relations=num_relations, num_nodes=num_nodes)


@nodes_and_edges
@relations
@channels
@pytest.mark.parametrize("soft", [False, True])
def test_ops_take_empty_sizes(num_nodes, num_edges, num_relations, channels, soft):
    adj = make(num_nodes, num_edges, num_relations, soft)
    x, weight = normal(num_nodes, channels[0]), normal(num_relations, *channels)
    h = normal(num_nodes, num_relations, channels[0], seed=1)
    values = (adj.edge_weight, adj.edge_type) if soft else (adj.edge_weight,)
    linear = {i: lambda *_, i=i: relational_linear(x, adj, weight, impl=i) for i in IMPLEMENTATIONS}
    aggregate = {i: lambda *_, i=i: relational_aggregate(x, adj, impl=i) for i in IMPLEMENTATIONS}
    total = {i: lambda *_, i=i: relational_sum(h, adj, impl=i) for i in IMPLEMENTATIONS}
    assert_implementations_agree(linear, x, weight, *values)
    assert_implementations_agree(aggregate, x, *values)
    assert_implementations_agree(total, h, *values)
    assert edge_softmax(normal(adj.src.numel(), channels[0]), adj).shape == (adj.src.numel(), channels[0])


@nodes_and_edges
@relations
@channels
def test_tables_take_empty_sizes(num_nodes, num_edges, num_relations, channels):
    adj = make(num_nodes, num_edges, num_relations)
    table = PaddedAdj.build(adj, dtype=torch.double)
    x, weight = normal(num_nodes, channels[0]), normal(num_relations, *channels)
    h = normal(num_nodes, num_relations, channels[0], seed=1)
    for run, leaves in (
        (lambda which: relational_linear(x, which, weight), (x, weight)),
        (lambda which: relational_aggregate(x, which), (x,)),
        (lambda which: relational_sum(h, which), (h,)),
        (lambda which: entry_sum(at_senders(x, which), which), (x,)),
        (lambda which: entry_sum(at_receivers(h, which), which), (h,)),
    ):
        ours, expected = run(table), run(adj)
        torch.testing.assert_close(ours, expected)
        grads = (torch.autograd.grad(out.square().sum(), leaves) for out in (ours, expected))
        for one, other in zip(*grads, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_sparse_features_take_no_output_channels():
    assert sparse_transform(torch.eye(3).to_sparse_csr(), torch.ones(2, 3, 0)).shape == (3, 2, 0)
