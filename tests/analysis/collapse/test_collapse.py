import math

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import (
    GAT,
    GCN,
    GIN,
    GCNConv,
    GraphSAGE,
    MessagePassing,
    TopKPooling,
    global_add_pool,
)

from graphprism.analysis.collapse import collapse, dirichlet_energy, effective_rank, norms, rank_one_distance

from .setting import build, classes, ring


@pytest.mark.parametrize("factory", [GCN, GraphSAGE, GAT, GIN])
@pytest.mark.parametrize("jk", [None, "cat", "max"])
def test_models_of_pyg(factory, jk):
    model = build(factory, 4, 8, num_layers=3, out_channels=3, jk=jk)
    report = collapse(model, ring(y=classes()))
    assert [row.name for row in report.rows] == ["convs.0", "convs.1", "convs.2"]
    assert all(row.kind == type(model.convs[0]).__name__ for row in report.rows)
    assert report.rows[0].shape == (10, 8)
    assert report.loss_name == "cross entropy"
    assert all(row.output_gradient > 0 and row.parameter_gradient > 0 for row in report.rows)


def test_rows_hold_the_metrics_of_the_layers():
    model, data = build(GCN, 4, 8, num_layers=2), ring()
    h = model.convs[0](data.x, data.edge_index)
    row, _ = collapse(model, data).rows
    assert row.rank_one_distance == rank_one_distance(h).item()
    assert row.effective_rank == effective_rank(h).item()
    assert row.numerical_rank == torch.linalg.matrix_rank(h).item()
    assert row.frobenius_norm == norms(h).frobenius.item()
    assert row.dirichlet_energy == dirichlet_energy(h, data.edge_index).item()
    assert row.dirichlet_energy_sym == dirichlet_energy(h, data.edge_index, "sym").item()
    assert row.dirichlet_energy_rw == dirichlet_energy(h, data.edge_index, "rw").item()
    assert row.output_gradient is None
    assert row.parameter_gradient is None


def test_gradients_are_those_of_backward():
    model, data = build(GCN, 4, 8, num_layers=3, out_channels=3), ring(y=classes())
    data.train_mask = torch.arange(10) < 6
    report = collapse(model, data)
    outputs = []
    hooks = [
        conv.register_forward_hook(lambda m, i, o: (o.retain_grad(), outputs.append(o))[0]) for conv in model.convs
    ]
    out = model(data.x, data.edge_index)
    for hook in hooks:
        hook.remove()
    loss = torch.nn.functional.cross_entropy(out[:6], data.y[:6])
    loss.backward()
    assert report.loss == pytest.approx(loss.item())
    assert "training nodes" in report.loss_name
    for row, output, conv in zip(report.rows, outputs, model.convs, strict=True):
        assert row.output_gradient == pytest.approx(output.grad.norm().item(), rel=1e-5)
        parameters = torch.cat([p.grad.flatten() for p in conv.parameters()])
        assert row.parameter_gradient == pytest.approx(parameters.norm().item(), rel=1e-5)


def test_an_activation_in_place_does_not_hide_the_output():
    class InPlace(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = GCNConv(4, 4)

        def forward(self, x, edge_index):
            return self.conv(x, edge_index).relu_().mul(3)

    model, data = build(InPlace), ring()
    h = model.conv(data.x, data.edge_index)
    report = collapse(model, data, loss=lambda output, _: output.sum())
    assert report.rows[0].frobenius_norm == pytest.approx(h.norm().item())
    assert report.rows[0].output_gradient == pytest.approx(3 * (h > 0).sum().sqrt().item())


def test_a_frozen_model_has_output_gradients():
    model = build(GCN, 4, 8, num_layers=2, out_channels=3).requires_grad_(False)
    report = collapse(model, ring(), classes())
    assert all(row.output_gradient > 0 and row.parameter_gradient is None for row in report.rows)
    assert not any(p.requires_grad for p in model.parameters())


def test_works_where_gradients_are_off():
    model, data = build(GCN, 4, 8, num_layers=2, out_channels=3), ring(y=classes())
    expected = collapse(model, data)
    with torch.no_grad():
        assert collapse(model, data) == expected
    with torch.inference_mode():
        assert collapse(model, data) == expected


class Pooled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(4, 6)
        self.head = torch.nn.Linear(6, 1)

    def forward(self, x, edge_index, batch):
        return self.head(global_add_pool(self.conv(x, edge_index), batch))


def test_batches_give_means_over_graphs():
    graphs = [ring(n, seed=n, y=torch.randn(1, generator=torch.Generator().manual_seed(n))) for n in (5, 8, 5)]
    model, batch = build(Pooled), Batch.from_data_list(graphs)
    (row,) = collapse(model, batch).rows
    alone = [collapse(model, graph, forward=lambda m, d: m.conv(d.x, d.edge_index)).rows[0] for graph in graphs]
    for name in ("rank_one_distance", "effective_rank", "numerical_rank", "dirichlet_energy_rw", "frobenius_norm"):
        assert getattr(row, name) == pytest.approx(sum(getattr(part, name) for part in alone) / 3, rel=1e-5)
    report = collapse(model, batch)
    assert report.num_graphs == 3
    assert report.loss_name == "mean squared error"
    whole = collapse(model, batch, whole=True)
    h = model.conv(batch.x, batch.edge_index)
    assert whole.num_graphs == 1
    assert whole.rows[0].rank_one_distance == pytest.approx(rank_one_distance(h).item())


def test_single_nodes_do_not_pull_the_mean_down():
    lone = Data(x=torch.ones(1, 4), edge_index=torch.zeros(2, 0, dtype=torch.long))
    model = build(Pooled)
    (both,) = collapse(model, Batch.from_data_list([ring(), lone])).rows
    (one,) = collapse(model, Batch.from_data_list([ring()])).rows
    assert both.rank_one_distance == pytest.approx(one.rank_one_distance)
    assert both.dirichlet_energy_rw == pytest.approx(one.dirichlet_energy_rw)


class Fill(MessagePassing):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, x, edge_index):
        return x * self.value if math.isfinite(self.value) else torch.full_like(x, self.value)


@pytest.mark.parametrize(
    ("value", "state"), [(0.0, "zero collapse"), (math.nan, "not finite"), (math.inf, "not finite"), (2.0, "ok")]
)
def test_states(value, state):
    (row,) = collapse(Fill(value), ring()).rows
    assert row.state == state
    assert math.isnan(row.rank_one_distance) == (state != "ok")
    assert row.zero_graphs == (state == "zero collapse")
    assert row.numerical_rank == 0 or state != "zero collapse"
    (row,) = collapse(Fill(value), ring(features=0)).rows
    assert row.state == "empty"


def test_some_graphs_of_zeros():
    zero = ring()
    zero.x.zero_()
    report = collapse(Fill(1.0), Batch.from_data_list([ring(), zero, zero]))
    assert (report.rows[0].state, report.rows[0].zero_graphs) == ("ok", 2)
    assert report.rows[0].rank_one_distance == collapse(Fill(1.0), ring()).rows[0].rank_one_distance
    assert "ok, 2 zero" in str(report)


def test_a_deep_gcn_collapses_and_its_gradients_are_shown():
    model = build(GCN, 4, 16, num_layers=64, out_channels=3)
    report = collapse(model, ring(), classes())
    assert len(report.rows) == 64
    assert report.rows[0].rank_one_distance > 0.5
    assert report.rows[-1].rank_one_distance < 1e-3
    assert report.rows[-1].effective_rank < 1.01
    assert all(row.state == "ok" and row.output_gradient > 0 for row in report.rows)
    assert "rank collapse from layer" in report.verdict
    assert "gradients vanish before layer" in report.verdict
    shallow = collapse(build(GCN, 4, 16, num_layers=4, out_channels=3), ring(), classes())
    assert shallow.verdict == "healthy"


def test_pooling_of_nodes():
    class Coarse(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.pool, self.second = GCNConv(4, 4), TopKPooling(4, ratio=0.5), GCNConv(4, 4)

        def forward(self, x, edge_index, batch):
            h, edge_index, _, batch, _, _ = self.pool(self.first(x, edge_index), edge_index, batch=batch)
            return self.second(h, edge_index)

    report = collapse(build(Coarse), Batch.from_data_list([ring(), ring()]))
    assert [row.shape for row in report.rows] == [(20, 4), (10, 4)]
    assert math.isnan(report.rows[1].dirichlet_energy)
    assert not math.isnan(report.rows[1].rank_one_distance)


def test_collapse_of_one_node_is_not_judged():
    alone = Data(x=torch.ones(1, 3), edge_index=torch.zeros(2, 0, dtype=torch.long))
    report = collapse(GCN(3, 8, num_layers=3), alone)
    assert len(report.rows) == 3
    assert report.verdict.startswith("not judged: a collapse can be seen with at least 2 nodes")
    assert report.verdict.endswith("got 1 node and 8 channels")
    graphs = Batch.from_data_list([alone] * 4)
    assert collapse(GCN(3, 8, num_layers=3), graphs).verdict.endswith("measures all nodes as one matrix")
    assert collapse(GCN(3, 8, num_layers=3), graphs, whole=True).verdict == "rank collapse from layer 1 (convs.0) on"


def test_batch_norms_that_saw_no_data_are_named_in_evaluation_alone():
    model, data = build(GCN, 4, 8, num_layers=3, norm="batch"), ring(y=classes())
    assert collapse(model, data).notices == ()  # in training they use the batch
    report = collapse(model.eval(), data)
    assert report.notices == (
        "2 batch norms in evaluation mode have not seen data yet, so that states stay as they are; train first, or "
        "measure after model.train()",
    )
    assert str(report).endswith(report.notices[0])
    assert type(report).from_json(report.to_json()).notices == report.notices
    model.train()(data.x, data.edge_index)
    assert collapse(model.eval(), data).notices == ()
