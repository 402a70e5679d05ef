import importlib

import numpy as np
import pytest
import torch

from graphprism.experiments import Figure2Spec
from graphprism.experiments.tables.figure_2 import _in_range, graphs_by_seed, rank_one_curve
from graphprism.nn import MRSGatedGCNConv
from graphprism.nn.models import CONVOLUTIONS
from graphprism.ops import RelationalAdj
from graphprism.splitting import by_order

GRAPH = graphs_by_seed("molecules", 3, None)[0][2]


def nuclear_distance(x):
    """The definition, with numpy."""
    u, v = x[:, np.linalg.norm(x, axis=0).argmax()], x[np.linalg.norm(x, axis=1).argmax()]
    one = np.outer(u, v)
    one *= np.sign((x * one).sum())
    return np.linalg.norm(x / np.linalg.norm(x, "nuc") - one / np.linalg.norm(one, "nuc"), "nuc")


@pytest.mark.parametrize("model", ["gcn", "mrs-gcn"])
@torch.no_grad()
def test_equals_dense_products_and_the_definition(model):
    curve = rank_one_curve(model, GRAPH, 5, Figure2Spec(layers=6))
    torch.manual_seed(5)
    x = torch.nn.Linear(28, 16, dtype=torch.float64)(GRAPH.x)
    conv = CONVOLUTIONS[model].make(16, 16, start="independent").double()
    types = by_order("degree")(GRAPH) if model == "mrs-gcn" else torch.zeros(GRAPH.edge_index.size(1), dtype=torch.long)
    degree = torch.bincount(GRAPH.edge_index[1]).double()
    source, target = GRAPH.edge_index
    dense = torch.zeros(3, GRAPH.num_nodes, GRAPH.num_nodes, dtype=torch.float64)
    dense[types, target, source] = (degree[source] * degree[target]).rsqrt()
    for distance in curve.tolist():
        conv.reset_parameters()
        x = sum(a @ x @ w for a, w in zip(dense, conv.lin.weight, strict=False)).relu()
        assert distance == pytest.approx(nuclear_distance(x.numpy()), abs=1e-12)


@pytest.mark.parametrize("model", [name for name, conv in CONVOLUTIONS.items() if conv.takes_graph and conv.edge_norm])
def test_every_model_runs_and_repeats_its_bits(model):
    spec = Figure2Spec(layers=4)
    first = rank_one_curve(model, GRAPH, 0, spec)
    assert first.shape == (4,)
    assert first.dtype == torch.float64
    assert bool(((first >= 0) & (first < 2)).all())
    torch.rand(7)
    assert torch.equal(first, rank_one_curve(model, GRAPH, 0, spec))
    assert not torch.equal(first, rank_one_curve(model, GRAPH, 1, spec))


def test_weights_are_fresh_in_every_layer():
    spec = Figure2Spec(models=("mrs-sage",), layers=2)
    torch.manual_seed(0)
    with torch.no_grad():
        x = torch.nn.Linear(28, 16, dtype=torch.float64)(GRAPH.x)
        conv = CONVOLUTIONS["mrs-sage"].make(16, 16, start="independent").double()
        adj = RelationalAdj(GRAPH.edge_index, by_order("degree")(GRAPH), num_relations=3, num_nodes=GRAPH.num_nodes)
        conv.reset_parameters()
        again = conv(conv(x, adj).relu(), adj).relu()
    curve = rank_one_curve("mrs-sage", GRAPH, 0, spec)
    assert abs(float(curve[1]) - nuclear_distance(again.numpy())) > 1e-3


def test_global_random_state_is_left_alone():
    before = torch.get_rng_state()
    rank_one_curve("gcn", GRAPH, 0, Figure2Spec(layers=2))
    assert torch.equal(before, torch.get_rng_state())


def test_scaling_changes_no_bit_where_the_layer_has_no_bias(monkeypatch):
    spec = Figure2Spec(layers=64)
    plain = {model: rank_one_curve(model, GRAPH, 0, spec) for model in ("gcn", "mrs-gcn")}
    module = importlib.import_module("graphprism.experiments.tables.figure_2")
    monkeypatch.setattr(module, "_LARGEST", 2.0**8)
    monkeypatch.setattr(module, "_FACTOR", 2.0**7)
    for model, curve in plain.items():
        assert torch.equal(curve, rank_one_curve(model, GRAPH, 0, spec))


@pytest.mark.parametrize(
    ("power", "scaled"), [(501, 101), (500, 500), (0, 0), (-500, -500), (-501, -101), (None, None)]
)
def test_states_far_from_one_are_scaled_by_a_power_of_two(power, scaled):
    x, expected = (torch.tensor([0.0 if p is None else 2.0**p, 0.0], dtype=torch.float64) for p in (power, scaled))
    assert torch.equal(_in_range(x), expected)


def test_thousands_of_layers_do_not_underflow():
    curve = rank_one_curve("mrs-gcn", GRAPH, 0, Figure2Spec(layers=2500))
    assert not bool(curve.isnan().any())
    assert float(curve[-1]) > 0.1


def test_state_of_zeros_has_no_distance():
    curves = torch.stack([rank_one_curve("gcn", GRAPH, seed, Figure2Spec(layers=4, channels=2)) for seed in range(8)])
    gone = curves.isnan()
    assert 0 < int(gone[:, -1].sum()) < 8
    assert torch.equal(gone, gone.cummax(dim=1).values)  # without a bias zeros stay zeros


def test_batch_norm_of_gated_gcn_is_the_identity(monkeypatch):
    curve = rank_one_curve("gated-gcn", GRAPH, 0, Figure2Spec(layers=8))
    module = importlib.import_module("graphprism.experiments.tables.figure_2")
    monkeypatch.setattr(
        module, "_make_conv", lambda name, c, r: MRSGatedGCNConv(c, c, num_relations=1, batch_norm=False)
    )
    torch.testing.assert_close(curve, rank_one_curve("gated-gcn", GRAPH, 0, Figure2Spec(layers=8)), rtol=1e-3, atol=0)
