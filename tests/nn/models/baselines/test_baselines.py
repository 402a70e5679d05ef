"""Laws that all baselines keep, and what they refuse."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from graphprism.nn import BASELINES, CONVOLUTIONS, MODELS
from graphprism.nn.models.baselines.matrices import dense_if_that_pays, norm_matrix, spread, two_hops
from graphprism.ops import RelationalAdj

NODES, FEATURES = 12, 6
FABER = {"alpha": 0.5, "jk": "max", "normalize": True, "start": "shared", "decay": 0.0}


def made(name, dropout=0.0, sparse=False):
    torch.manual_seed(0)
    baseline = BASELINES[name]
    edges = torch.randint(NODES, (2, 40))
    edges = torch.unique(torch.cat([edges, edges.flip(0)], dim=1), dim=1)
    types = torch.arange(edges.size(1)) % 3 if baseline.relational else None
    relations = 3 if baseline.relational else 1
    fields = {name: FABER[name] for name in baseline.fields}
    sizes = {"num_nodes": NODES, "num_relations": relations, "dropout": dropout}
    network = baseline.make(FEATURES, 8, 3, 2, fields=fields, **sizes).double()
    x = torch.rand(NODES, FEATURES, dtype=torch.float64)
    x = x * (x > 0.8) if sparse else x
    return network, x, baseline.prepare(x, edges, x.dtype, num_layers=2, edge_type=types, num_relations=relations)


@pytest.mark.parametrize("name", BASELINES)
def test_every_parameter_gets_a_gradient(name):
    network, x, graph = made(name)
    network(x, graph).square().sum().backward()
    assert [key for key, each in network.named_parameters() if each.grad is None or not each.grad.any()] == []


@pytest.mark.parametrize("name", [name for name, entry in BASELINES.items() if entry.takes_sparse])
def test_sparse_features_give_the_same(name):
    network, x, graph = made(name, sparse=True)
    expected = network.eval()(x, graph)
    expected.sum().backward()
    grads = [parameter.grad.clone() for parameter in network.parameters()]
    network.zero_grad()
    found = network(x.to_sparse_csr(), graph)
    torch.testing.assert_close(found, expected)
    found.sum().backward()
    torch.testing.assert_close([parameter.grad for parameter in network.parameters()], grads)


@pytest.mark.parametrize("name", ["fsgnn", "fabernet"])
def test_groups_hold_every_parameter_once(name):
    network, _, _ = made(name)
    grouped = [parameter for group in network.parameter_groups(0.1) for parameter in group["params"]]
    assert sorted(map(id, grouped)) == sorted(map(id, network.parameters()))


@pytest.mark.parametrize("name", BASELINES)
def test_dropout_follows_the_generator(name):
    network, x, graph = made(name, dropout=0.5)
    one, two = (network.train()(x, graph, torch.Generator().manual_seed(5)) for _ in range(2))
    torch.testing.assert_close(one, two)


def test_models_are_convolutions_and_baselines():
    assert set(MODELS) == {*CONVOLUTIONS, *BASELINES}
    assert len(MODELS) == len(CONVOLUTIONS) + len(BASELINES)


def test_unknown_option_is_named():
    with pytest.raises(ValueError, match="`options` of h2gcn must be among none, got steps"):
        BASELINES["h2gcn"].check({"steps": 3})
    with pytest.raises(ValueError, match="must be among steps, alpha, late_dropout, got hops"):
        BASELINES["gpr-gnn"].make(2, 2, 2, 2, num_nodes=3, hops=3)


def test_acm_gcn_has_two_layers():
    with pytest.raises(ValueError, match="`num_layers` must be 2 for ACM-GCN, got 3"):
        BASELINES["acm-gcn"].make(2, 2, 2, 3, num_nodes=3)


def test_fabernet_rejects_what_it_does_not_know():
    with pytest.raises(ValueError, match="`activation` \"abs\" or \"relu\", got 'max' and 'tanh'"):
        BASELINES["fabernet"].make(2, 2, 2, 2, num_nodes=3, fields={"jk": "max"}, activation="tanh")


@pytest.mark.parametrize("most", [0, 10])
def test_two_hops_leave_out_neighbours_and_loops(most, monkeypatch):
    monkeypatch.setattr("graphprism.nn.models.baselines.matrices._DENSE_NODES", most)
    square = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0, 0, 2], [1, 2, 3, 0, 0, 1, 2, 3, 2, 0]])  # with one diagonal
    assert sorted(zip(*two_hops(square, 4).tolist(), strict=True)) == [(1, 3), (3, 1)]


@pytest.mark.parametrize(("has_hub", "is_dense"), [(True, True), (False, False)])
def test_two_hops_are_counted_densely_only_where_a_sparse_product_has_many_terms(has_hub, is_dense, monkeypatch):
    ring = torch.stack([torch.arange(50), torch.arange(1, 51) % 50])
    hubs = torch.stack([torch.arange(50).repeat(2), torch.arange(2).repeat_interleave(50)])
    edges = torch.cat([ring, ring.flip(0), *([hubs, hubs.flip(0)] if has_hub else [])], dim=1)
    sparse, product = [], torch.sparse.mm
    monkeypatch.setattr(torch.sparse, "mm", lambda *factors: (sparse.append(1), product(*factors))[1])
    found = two_hops(edges, 50)
    assert bool(sparse) != is_dense
    monkeypatch.setattr("graphprism.nn.models.baselines.matrices._DENSE_NODES", 0)
    assert sorted(found.t().tolist()) == sorted(two_hops(edges, 50).t().tolist())


def test_dense_and_sparse_matrices_give_the_same_product():
    edges, h = torch.randint(6, (2, 30)), torch.randn(6, 2, dtype=torch.float64)
    sparse = norm_matrix(edges, 6, "sym", torch.float64)
    dense = dense_if_that_pays(sparse)
    assert isinstance(dense, torch.Tensor)
    torch.testing.assert_close(spread(dense, h), spread(sparse, h))
    assert dense_if_that_pays(norm_matrix(edges, 60, "sym", torch.float64)) is not None
    assert not isinstance(dense_if_that_pays(norm_matrix(edges[:, :4], 60, "sym", torch.float64)), torch.Tensor)


class LargestOutput(TorchDispatchMode):
    """Notes the largest number of elements that an operation gives."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.elements = max(self.elements, out.numel())
        return out


@pytest.mark.parametrize("name", BASELINES)
def test_forward_never_propagates_all_features(name, monkeypatch):
    nodes, features, hidden = 12, 300, 4
    baseline, edges = BASELINES[name], torch.ones(nodes, nodes).nonzero().t()
    edges = edges[:, edges[0] != edges[1]]
    types = torch.zeros_like(edges[0]) if baseline.relational else None
    fields = {field: FABER[field] for field in baseline.fields}
    options = {"order": 3, "complex": True} if "complex" in baseline.options else {}
    network = baseline.make(features, hidden, 3, 2, num_nodes=nodes, fields=fields, **options)
    x = torch.rand(nodes, features)
    graph = baseline.prepare(x, edges, x.dtype, num_layers=2, edge_type=types)
    widths, aggregate = [0], RelationalAdj.relational_aggregate
    monkeypatch.setattr(
        RelationalAdj,
        "relational_aggregate",
        lambda adj, h, impl=None: (widths.append(h.size(-1)), aggregate(adj, h, impl))[1],
    )
    with LargestOutput() as largest:
        network(x, graph)
    assert max(widths) < features
    assert largest.elements < edges.size(1) * features
