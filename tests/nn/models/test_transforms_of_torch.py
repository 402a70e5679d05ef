"""Whole networks under `torch.compile` and `torch.func`."""

import pytest
import torch

from graphprism.nn import GNN
from graphprism.testing import tolerance
from tests.pairwise import quick

TYPES = torch.tensor([0, 3, 1, 1, 4, 2])
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 1], [1, 2, 0, 4, 5, 3, 0]])
RELATIONS = torch.tensor([0, 1, 2, 0, 1, 2, 1])


def make_network(model, **more):
    torch.manual_seed(0)
    return GNN(model, 8, 2, num_layers=2, num_node_types=5, num_relations=3, **more).double()


@pytest.mark.parametrize("model", quick(["mrs-gcn", "mrs-gat"], "mrs-gcn"))
def test_compiles_whole(model):
    network = make_network(model)
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    ours, exact = compiled(TYPES, EDGES, RELATIONS), network(TYPES, EDGES, RELATIONS)
    torch.testing.assert_close(ours, exact, **tolerance(torch.double))
    parameters = list(network.parameters())
    grads = [torch.autograd.grad(out.square().sum(), parameters) for out in (ours, exact)]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("model", ["mrs-gcn", "mrs-gat"])
def test_gradients_of_many_targets_at_once(model):
    network, targets = make_network(model, readout="sum"), torch.randn(3, 2, dtype=torch.double)
    parameters = dict(network.named_parameters())
    owner = torch.tensor([0, 0, 0, 1, 1, 1])

    def loss(parameters, target):
        out = torch.func.functional_call(network, parameters, (TYPES, EDGES, RELATIONS), {"batch": owner})
        return (out - target).square().sum()

    ours = torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, targets)
    for number, target in enumerate(targets):
        exact = torch.autograd.grad(loss(parameters, target), list(parameters.values()))
        torch.testing.assert_close([each[number] for each in ours.values()], list(exact))
