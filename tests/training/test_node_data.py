from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.training import train
from graphprism.training.node_data import NodeData, input_dropout
from tests.training.node_sets import small_run, small_set, sparse_set

CPU = torch.device("cpu")


def edges_of(data):
    return sorted(zip(*data.adj.edge_index.tolist(), strict=True))


def make(**options):
    dataset = replace(small_set(), edge_index=torch.tensor([[0, 0, 1, 2], [1, 2, 1, 0]]))
    return NodeData.prepare(small_run(**options), dataset, CPU)


def test_the_graph_as_it_is():
    data = make(model="gcn")
    assert edges_of(data) == [(0, 1), (0, 2), (1, 1), (2, 0)]
    assert data.adj.num_relations == 1


def test_relations_follow_the_out_degree_of_the_original_graph():
    data = make(model="mrs-dir-gcn")
    # out-degrees are 2, 1, 1
    assert data.adj.edge_type.tolist() == [1, 1, 2, 0]


def test_both_ways_and_loops_come_before_the_split():
    data = make(model="mrs-gcn", undirected=True, self_loops=True)
    found = dict(zip(zip(*data.adj.edge_index.tolist(), strict=True), data.adj.edge_type.tolist(), strict=True))
    assert {edge: found[edge] for edge in [(0, 1), (1, 0), (0, 2), (2, 0), (1, 1), (5, 5)]} == {
        # out-degrees with the way back and the loop: 3, 2, 2
        (0, 1): 1, (1, 0): 0, (0, 2): 1, (2, 0): 0, (1, 1): 2, (5, 5): 2,
    }  # fmt: skip
    assert len(found) == 4 + 48


def test_features_add_up_to_one_where_asked():
    torch.testing.assert_close(make().x.sum(1), torch.ones(48, dtype=torch.double))
    torch.testing.assert_close(make(row_normalise=False).x, small_set().x.double())
    assert make(precision="float32").x.dtype == torch.float32


@pytest.mark.parametrize(
    ("set_in_each_row", "few", "layout"),
    [
        (2, 0, torch.sparse_csr),  # 2 of 100: fewer bytes
        (3, 0, torch.strided),
        (15, 48 * 15 + 1, torch.sparse_csr),  # 15 of 100, and not many in all: less time
        (15, 48 * 15, torch.strided),
        (16, 48 * 100, torch.strided),
    ],
)
def test_features_are_sparse_where_that_pays(monkeypatch, set_in_each_row, few, layout):
    monkeypatch.setattr("graphprism.training.node_data._FEW", few)
    x = torch.zeros(48, 100)
    x[:, :set_in_each_row] = 1.0
    found = NodeData.prepare(small_run(row_normalise=False), replace(small_set(), x=x), CPU).x
    assert found.layout == layout
    assert torch.equal(found.to_dense(), x.double())


def test_a_network_without_edges_gets_none():
    assert make(model="mlp").adj is None


def test_runs_that_differ_in_training_alone_share_their_data():
    keys = {
        NodeData.key(small_run(**options)) for options in ({}, {"lr": 1.0}, {"fold": 2}, {"layers": 9}, {"seed": 3})
    }
    assert len(keys) == 1
    others = [{"model": "gcn"}, {"model": "mlp"}, {"split": "ppr"}, {"undirected": True}, {"self_loops": True}]
    others += [{"row_normalise": False}, {"precision": "float32"}]
    assert len({NodeData.key(small_run(**options)) for options in others} | keys) == len(others) + 1


def test_sets_that_do_not_fit():
    with pytest.raises(ValueError, match=r"the metric must be one of \['mae', 'rmse'\] for the task regression"):
        train(small_run(), replace(small_set(), task="regression"), accelerator="cpu")
    with pytest.raises(ValueError, match=r"must have masks for training, validation and test, got PackedDataset"):
        NodeData.prepare(small_run(), molecules(10), CPU)
    with pytest.raises(ValueError, match=r"`fold` must be in \[0, 3\), the official folds of small, got 3"):
        NodeData.prepare(small_run(fold=3), small_set(), CPU)
    with pytest.raises(ValueError, match="must have masks"):
        NodeData.prepare(small_run(), replace(small_set(), val_mask=None), CPU)


def test_runs_that_do_not_take_the_whole_graph():
    with pytest.raises(ValueError, match=r"`batch_size` must be None \(the whole graph\) for targets of nodes, got 32"):
        train(small_run(batch_size=32), small_set(), accelerator="cpu")
    with pytest.raises(ValueError, match="`pe` must be 0 for targets of nodes, got 2"):
        train(small_run(pe=2), small_set(), accelerator="cpu")
    with pytest.raises(ValueError, match="`devices` must be 1 for targets of nodes on the whole graph"):
        train(small_run(), small_set(), accelerator="cpu", devices=2)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


SETS = pytest.mark.parametrize("make", [small_set, sparse_set])


def features(make):
    return NodeData.prepare(small_run(), make(), CPU).x


@SETS
def test_a_share_is_dropped_and_the_rest_is_scaled(make):
    x = features(make)
    before = x.to_dense().clone()
    whole = torch.stack([input_dropout(x, 0.25, generator(seed)).to_dense() for seed in range(40)])
    stored = before != 0
    kept = whole[:, stored] != 0
    assert kept.double().mean().item() == pytest.approx(0.75, abs=0.02)
    torch.testing.assert_close(whole[:, stored][kept], (before[stored] / 0.75).expand_as(kept)[kept])
    assert not whole[:, ~stored].any()
    assert torch.equal(x.to_dense(), before)  # others train on it, too


@SETS
def test_the_generator_decides(make):
    x = features(make)
    first, same, other = (input_dropout(x, 0.5, generator(seed)).to_dense() for seed in (0, 0, 1))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


@SETS
def test_without_a_share_nothing_is_done_and_nothing_is_drawn(make):
    x, drawn = features(make), generator()
    assert input_dropout(x, 0.0, drawn) is x
    assert torch.equal(drawn.get_state(), generator().get_state())


def test_features_that_are_mostly_zeros_stay_sparse():
    x = features(sparse_set)
    assert x.layout == torch.sparse_csr
    assert input_dropout(x, 0.5, generator()).layout == torch.sparse_csr


def test_fsgnn_on_a_gpu_propagates_features_once_and_drops_none():
    run = small_run(model="fsgnn", layers=2)
    assert NodeData.key(run) != NodeData.key(small_run(model="fsgnn", layers=3))
    with pytest.raises(ValueError, match="`input_dropout` must be False for fsgnn"):
        NodeData.prepare(small_run(model="fsgnn", input_dropout=True, dropout=0.5), small_set(), CPU)
