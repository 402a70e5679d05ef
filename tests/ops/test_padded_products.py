"""Every op on tables against the same op on a `RelationalAdj`, which has tests of its own."""

import pytest
import torch

from graphprism.ops import edge_softmax, entry_sum, relational_aggregate, relational_linear, relational_sum
from graphprism.ops.batched.padded_adj import PaddedAdj
from graphprism.ops.batched.padded_products import aggregate, linear, read_senders, sum_with_root
from tests.ops.cases import GRAPHS, normal
from tests.ops.tables import NOTHING, both, both_of, entry_of_edge, repeated, to_entries


def assert_same(ours, theirs, inputs):
    """Equal outputs and equal gradients of ``inputs``."""
    torch.testing.assert_close(ours, theirs)
    grad = normal(*ours.shape, seed=9).detach()
    pairs = zip(*(torch.autograd.grad(out, inputs, grad, retain_graph=True) for out in (ours, theirs)), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("norm", ["none", "sym", "mean"])
@pytest.mark.parametrize("num_relations", [1, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_products_equal_those_of_an_adjacency(name, num_relations, norm):
    adj, table = both_of(name, norm, num_relations)
    x, h = normal(adj.size[0], 5), normal(adj.size[0], num_relations, 4, seed=1)
    weight = normal(num_relations, 5, 4, seed=2)
    assert_same(relational_linear(x, table, weight), relational_linear(x, adj, weight), (x, weight))
    assert_same(relational_aggregate(x, table), relational_aggregate(x, adj), (x,))
    assert_same(relational_sum(h, table), relational_sum(h, adj), (h,))
    eps = torch.tensor(0.5, dtype=torch.double, requires_grad=True)
    expected = (1 + eps) * x + relational_aggregate(x, adj).sum(dim=1)
    assert_same(sum_with_root(x, table, eps), expected, (x, eps))


@pytest.mark.parametrize("name", GRAPHS)
def test_entries_equal_those_of_an_adjacency(name):
    adj, table = both_of(name)
    edges = adj.src.numel()
    rows, logit = normal(edges, 4), normal(edges, 2, seed=1)
    assert_same(entry_sum(to_entries(rows, adj, table), table), entry_sum(rows, adj), (rows,))
    share = edge_softmax(to_entries(logit, adj, table), table)
    assert_same(share[entry_of_edge(adj, table)], edge_softmax(logit, adj), (logit,))
    assert share.count_nonzero() == 2 * edges  # empty entries get nothing
    h, weight = normal(adj.size[0], 3, 2, 4, seed=2), normal(edges, 2, seed=3)
    heads = relational_sum(h, table, to_entries(weight, adj, table))
    assert_same(heads, relational_sum(h, adj, weight), (h, weight))


@pytest.mark.parametrize("size", [1e4, -1e4])
def test_a_softmax_of_large_numbers(size):
    adj, table = both_of("molecule")
    logit = size + normal(adj.src.numel(), 2)
    share = edge_softmax(to_entries(logit, adj, table), table)
    torch.testing.assert_close(share[entry_of_edge(adj, table)], edge_softmax(logit, adj))


def test_what_no_edge_reads_may_be_anything():
    # nodes 4 and 5 of this graph send nothing; their own empty slots are all that points to them
    adj, table = both_of("directed")
    silent = torch.tensor([4, 5])
    assert not torch.isin(adj.src, silent).any()
    x = normal(6, 5).detach()
    weight = normal(3, 5, 4, seed=2).detach()
    spoilt = x.index_fill(0, silent, NOTHING)
    assert linear(spoilt, table, weight).equal(linear(x, table, weight))
    assert aggregate(spoilt, table).equal(aggregate(x, table))


def table_of(numbers, weights):
    return PaddedAdj(numbers, weights, 3, "sym")


PRODUCTS = {
    "linear": (lambda x, n, w: linear(x, table_of(n, w), x[:15].view(3, 5, 5)), 2),
    "aggregate": (lambda x, n, w: aggregate(x, table_of(n, w)), 2),
    "read": (lambda x, n, w: read_senders(x, table_of(n, w)), 2),
    "read by relation": (lambda h, n, w: read_senders(h, table_of(n, w)), 3),
    "read heads by relation": (lambda h, n, w: read_senders(h, table_of(n, w)), 4),
    "sum": (lambda h, n, w: relational_sum(h, table_of(n, w)), 3),
    "softmax": (lambda h, n, w: edge_softmax(read_senders(h, table_of(n, w)), table_of(n, w)), 3),
}


def exchanged(table):
    """The two molecules of a table in the other order."""
    first = both(1)[1].size[0]
    place = torch.arange(table.size[0], dtype=torch.int32)[:, None]
    return table.relative().numbers.roll(-first, 0) + place * table.base, table.weights.roll(-first, 0)


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("shared", [False, True])
def test_many_runs_at_once_equal_one_by_one(name, shared):
    product, dims = PRODUCTS[name]
    _, table = both(2)
    count, nodes = 3, table.size[0]
    numbers, weights = repeated(table, count)
    if not shared:  # every run with a graph of its own: the same molecules the other way round, and other weights
        numbers[1], weights[1] = exchanged(table)
        weights[2] *= 2
    x = normal(count, nodes, *{2: (5,), 3: (3, 4), 4: (3, 2, 4)}[dims])
    tables = (table.numbers, table.weights) if shared else (numbers, weights)
    ours = torch.vmap(product, in_dims=(0, None, None) if shared else 0)(x, *tables)
    theirs = torch.stack([product(x[k], numbers[k], weights[k]) for k in range(count)])
    assert_same(ours, theirs, (x,))


def test_nodes_themselves_of_many_runs():
    _, table = both(2)
    x, eps = normal(3, table.size[0], 5), normal(3, seed=1)
    ours = torch.vmap(lambda x, eps: sum_with_root(x, table, eps))(x, eps)
    theirs = torch.stack([sum_with_root(x[k], table, eps[k]) for k in range(3)])
    assert_same(ours, theirs, (x, eps))


@pytest.mark.parametrize("name", PRODUCTS)
def test_gradients(name):
    product, dims = PRODUCTS[name]
    _, table = both_of("self-loops", "sym")
    if name == "linear":
        weight = normal(3, 2, 2, seed=1)
        assert torch.autograd.gradcheck(lambda x, w: linear(x, table, w), (normal(3, 2), weight))
        return
    x = normal(3, *{2: (2,), 3: (3, 2), 4: (3, 1, 2)}[dims])
    # what an empty entry reads is not said, and takes no gradient
    rows = table.entry_mask if "read" in name else slice(None)
    assert torch.autograd.gradcheck(lambda x: product(x, table.numbers, table.weights)[rows], (x,))
