"""``GNN(jk="lstm")`` joins states as PyG's `JumpingKnowledge` does."""

import pytest
import torch
from torch_geometric.nn import JumpingKnowledge

from graphprism.datasets import molecules
from graphprism.nn import GNN
from graphprism.testing import random_graph, tolerance
from graphprism.training import Run, train, train_lockstep

GRAPH = random_graph(9, 30, 0)
TYPES = torch.arange(30) % 3
X = torch.randn(9, 5, generator=torch.Generator().manual_seed(0)).double()


@pytest.mark.parametrize("normalize", [False, True])
def test_lstm_is_pygs(normalize):
    torch.manual_seed(0)
    model = GNN("mrs-gcn", 8, 3, 4, in_channels=5, jk="lstm", normalize=normalize).double()
    states, expected = [], JumpingKnowledge("lstm", 8, 4).double()
    expected.load_state_dict(model.jumping.state_dict())
    h = model.encoder(X)
    for conv in model.convs:
        h = conv(h, GRAPH.edge_index, TYPES).relu()
        h = torch.nn.functional.normalize(h) if normalize else h
        states.append(h)
    found = model(X, GRAPH.edge_index, TYPES)
    torch.testing.assert_close(found, model.head(expected(states)), **tolerance(torch.double))


def test_lstm_with_a_leading_dimension():
    torch.manual_seed(0)
    model = GNN("mrs-gcn", 8, 3, 2, in_channels=5, jk="lstm").double()
    both = model(torch.stack([X, -X]), GRAPH.edge_index, TYPES)
    torch.testing.assert_close(both[1], model(-X, GRAPH.edge_index, TYPES), **tolerance(torch.double))


def test_lstm_starts_anew():
    model = GNN("mrs-gcn", 8, 3, 2, in_channels=5, jk="lstm")
    before = model.jumping.lstm.weight_ih_l0.clone()
    model.reset_parameters()
    assert not model.jumping.lstm.weight_ih_l0.equal(before)


def test_other_models_have_no_new_parameters():
    assert not any("jumping" in key for key in GNN("mrs-gcn", 8, 3, 2, in_channels=5, jk="max").state_dict())


def test_runs_with_lstm_train_in_every_engine():
    graphs = [Run(jk="lstm", layers=2, width=8, epochs=1, seed=seed) for seed in (0, 1)]
    assert [result.status for result in train_lockstep(graphs, molecules(60), accelerator="cpu")] == ["finished"] * 2
    assert train(Run(jk="lstm", layers=2, budget=3000, epochs=1), molecules(60), accelerator="cpu").status == "finished"
