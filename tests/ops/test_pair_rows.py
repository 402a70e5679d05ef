"""Rows of active pairs: the structure, its products, and that nothing of the size N x R is made."""

import pytest
import torch

from graphprism.ops import RelationalAdj, pair_rows, relational_linear
from graphprism.ops.csr import Csr
from graphprism.ops.pair_rows import PairRows, active_pairs_pay, receiver_products, sender_rows
from graphprism.testing import tolerance
from tests.ops.cases import GRAPHS, make_adj, normal


def many_relations(num_nodes=50, num_edges=300, num_relations=1000, **kwargs):
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(num_nodes, (2, num_edges), generator=generator)
    types = torch.randint(num_relations, (num_edges,), generator=generator)
    return RelationalAdj(edges, types, num_relations=num_relations, num_nodes=num_nodes, **kwargs)


def test_pair_rows_by_hand():
    node, relation = torch.tensor([4, 0, 4, 2, 4, 1, 3, 2]), torch.tensor([7, 7, 7, 7, 1, 7, 7, 1])
    rows = PairRows.build(node, relation, num_nodes=5)
    # relation 1 has nodes 2 and 4; relation 7 has 0 to 4, padded to six by a node of its own
    assert rows.relation.tolist() == [1, 7]
    assert rows.groups == ((1, 2), (1, 6))
    assert rows.nodes.edge_index[0].tolist() == [2, 4, 0, 1, 2, 3, 4, 0]
    assert rows.relation_row.tolist() == [1, 1, 7, 7, 7, 7, 7, 7]
    assert rows.entry_row.tolist() == [6, 2, 6, 4, 1, 3, 5, 0]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("soft", [False, True])
def test_pair_rows_hold_each_active_pair_once(name, soft):
    adj = make_adj(name, num_relations=7, soft=soft)
    for rows, pair, node in ((adj.sender_pairs, adj.pair_src, adj.src), (adj.receiver_pairs, adj.pair_dst, adj.dst)):
        assert torch.equal(rows.nodes.edge_index[0][rows.entry_row], node.long())
        assert torch.equal(rows.relation_row[rows.entry_row], adj.relation)
        assert rows.entry_row.unique().numel() == pair.unique().numel()
        assert rows.relation_row.numel() == sum(many * size for many, size in rows.groups)
        assert rows.relation_row.numel() <= 1.5 * pair.unique().numel()


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("soft", [False, True])
def test_sender_rows_and_receiver_products_equal_all_pairs(monkeypatch, name, soft):
    adj = make_adj(name, soft=soft)
    x, weight, bias = normal(adj.size[0], 4), normal(3, 4, 2, seed=1), normal(3, 2, seed=2)
    found = []
    for fewest in (0, 1 << 60):
        monkeypatch.setattr(pair_rows, "_FEWEST_PAIRS", fewest)
        monkeypatch.setattr(pair_rows, "_PAIRS_PER_ENTRY", 0)
        rows, graph = sender_rows(x, adj, weight, bias)
        pays = fewest == 0 and adj.size[0] > 0
        assert (graph is not adj) == pays
        out = graph.at_senders(rows) * receiver_products(x, adj, weight)
        found.append((out, *torch.autograd.grad(out.sum(), (x, weight, bias))))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, **tolerance(torch.double))


def test_active_pairs_pay_where_relations_are_many_beside_entries():
    assert active_pairs_pay(many_relations())
    assert not active_pairs_pay(many_relations(num_relations=100))  # small: either way takes no time
    assert not active_pairs_pay(many_relations(num_edges=20_000))
    edges = torch.randint(20_000, (2, 10))
    assert not active_pairs_pay(RelationalAdj(edges, num_nodes=20_000))
    adj = many_relations()
    seen = torch.vmap(lambda x: x * active_pairs_pay(adj))(torch.ones(2))
    assert seen.tolist() == [0, 0]  # transformed code has no values to count pairs by


def test_linear_with_many_relations_sorts_no_pairs(monkeypatch):
    sizes = []
    build = Csr.build

    def recorded(*args):
        found = build(*args)
        sizes.append(found.rowptr.numel())
        return found

    monkeypatch.setattr(Csr, "build", recorded)
    adj = many_relations().normalized("mean", torch.double)
    x, weight = normal(50, 4), normal(1000, 4, 3, seed=1)
    out = relational_linear(x, adj, weight)
    grads = torch.autograd.grad(out.square().sum(), (x, weight))
    assert sizes
    assert max(sizes) <= 1.5 * 300 + 1
    expected = relational_linear(x, adj, weight, impl="reference")
    torch.testing.assert_close(out, expected, **tolerance(torch.double))
    for ours, theirs in zip(grads, torch.autograd.grad(expected.square().sum(), (x, weight)), strict=True):
        torch.testing.assert_close(ours, theirs, **tolerance(torch.double))


def test_pairs_are_sorted_once_for_all_weights_and_directions():
    adj = many_relations()
    rows, other = adj.sender_pairs, adj.receiver_pairs
    assert adj.with_weight(torch.rand(300)).sender_pairs is rows
    assert adj.normalized("mean").sender_pairs is rows
    assert adj.transpose().receiver_pairs is rows
    assert adj.transpose().sender_pairs is other


def test_linear_ignores_infinite_rows_of_nodes_that_do_not_send():
    # a padding row must not bring in a node that its relation does not have
    adj = RelationalAdj(torch.tensor([[1, 2, 3, 4, 5], [0] * 5]), torch.tensor([0] * 5), num_relations=2, num_nodes=6)
    assert adj.sender_pairs.groups == ((1, 6),)
    x, weight = normal(6, 2), normal(2, 2, 2, seed=1)
    with torch.no_grad():
        x[0] = torch.inf
    out = relational_linear(x, adj, weight, impl="pairs")
    assert out.isfinite().all()
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(out.sum(), (x, weight)))
