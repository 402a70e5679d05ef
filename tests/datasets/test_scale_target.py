"""Standardised targets of graphs in memory, as those of tables."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphprism.datasets import describe, from_data, from_files, read, save
from graphprism.training import Run, load, train


def graph_of_nodes(**more):
    pairs = torch.arange(20)
    edges = torch.stack([torch.cat([pairs, (pairs + 1) % 20]), torch.cat([(pairs + 1) % 20, pairs])])
    x = torch.rand(20, 3, generator=torch.Generator().manual_seed(0))
    return Data(x=x, edge_index=edges, y=1000 + 50 * x[:, :1], **more)


def unscaled(dataset):
    return dataset.y * dataset.preprocessing["target_scale"] + dataset.preprocessing["target_mean"]


def test_from_data_standardises_targets_of_nodes_by_the_training_fold():
    plain, scaled = from_data(graph_of_nodes()), from_data(graph_of_nodes(), scale_target=True)
    seen = scaled.y[scaled.train_mask[:, 0]].double()
    assert float(seen.mean()) == pytest.approx(0, abs=1e-5)
    assert float(seen.std(correction=0)) == pytest.approx(1, abs=1e-4)
    assert torch.allclose(unscaled(scaled), plain.y)
    assert torch.equal(scaled.train_mask, plain.train_mask)
    assert plain.preprocessing is None


def test_from_data_standardises_by_all_known_rows_of_several_folds():
    scaled = from_data(graph_of_nodes(), folds=3, scale_target=True)
    assert scaled.preprocessing["target_mean"] == pytest.approx(float(graph_of_nodes().y.mean()))


def test_from_data_standardises_targets_of_graphs():
    graphs = [Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]), y=100.0 + k) for k in range(20)]
    plain, scaled = from_data(graphs, "regression"), from_data(graphs, "regression", scale_target=True)
    assert float(scaled.y[scaled.subset("train")].mean()) == pytest.approx(0, abs=1e-5)
    assert torch.allclose(unscaled(scaled), plain.y)


def test_from_data_leaves_classes_as_they_are():
    graph = graph_of_nodes()
    graph.y = torch.arange(20) % 3
    assert from_data(graph, scale_target=True).preprocessing is None


def test_from_files_standardises_arrays(tmp_path):
    graph = graph_of_nodes()
    np.savez(tmp_path / "own.npz", **{key: graph[key].numpy() for key in ("x", "edge_index", "y")})
    scaled = from_files(tmp_path / "own.npz", scale_target=True)
    assert torch.allclose(unscaled(scaled), graph.y)
    lines = describe(scaled)
    assert lines[1] == "Node features: 3 features."
    assert lines[2].startswith("Target: 1")
    save(scaled, tmp_path / "packed.npz")
    assert read(tmp_path / "packed.npz").preprocessing == scaled.preprocessing


def test_predictions_are_in_the_unit_of_the_target(tmp_path):
    scaled = from_data(graph_of_nodes(), scale_target=True)
    train(Run("data", "gcn", layers=1, width=4, epochs=2, warmup=0, batch_size=None), scaled, folder=tmp_path)
    found = load(tmp_path)
    outputs, predicted = found(graph_of_nodes()), found.predict(graph_of_nodes()).scores
    mean, scale = (scaled.preprocessing[f"target_{word}"] for word in ("mean", "scale"))
    assert torch.allclose(predicted, outputs.double() * scale + mean)
    with pytest.raises(ValueError, match="tables need a run on tables"):
        found.predict(tmp_path)


def graphs_of_two_units(gaps):
    edges = torch.tensor([[0, 1], [1, 0]])
    y = torch.tensor([[1000.0 + 50 * k, 0.01 * k * k] for k in range(20)])
    if gaps:
        y[::3, 0], y[1::3, 1] = torch.nan, torch.nan
    return [Data(x=torch.ones(2, 1) * k, edge_index=edges, y=row[None]) for k, row in enumerate(y)], y


@pytest.mark.parametrize("gaps", [False, True])
def test_each_of_several_targets_is_standardised_by_its_known_entries(tmp_path, gaps):
    graphs, y = graphs_of_two_units(gaps)
    scaled = from_data(graphs, scale_target=True)
    for column, own in zip(scaled.y[scaled.subset("train")].double().T, y.T, strict=True):
        seen = column[~column.isnan()]
        assert seen.numel() < 16 if gaps else seen.numel() == 16
        assert own.isnan().any() == gaps
        assert float(seen.mean()) == pytest.approx(0, abs=1e-5)
        assert float(seen.std(correction=0)) == pytest.approx(1, abs=1e-4)
    mean, scale = (torch.tensor(scaled.preprocessing[f"target_{word}"]) for word in ("mean", "scale"))
    torch.testing.assert_close(scaled.y * scale + mean, y, rtol=1e-4, atol=1e-4, equal_nan=True)
    (line,) = [line for line in describe(scaled) if line.startswith("Target")]
    assert "trained minus the mean of each, divided by its deviation" in line
    assert "nan" not in line
    save(scaled, tmp_path / "packed.npz")
    again = read(tmp_path / "packed.npz")
    assert again.preprocessing == scaled.preprocessing
    train(Run("data", "gcn", layers=1, width=4, epochs=2, warmup=0), again, folder=tmp_path, accelerator="cpu")
    found = load(tmp_path)
    torch.testing.assert_close(found.predict(graphs).scores, found(graphs).double() * scale.double() + mean.double())


def test_one_mean_of_several_targets_is_read(tmp_path):
    """As files have it from before each target had its own."""
    scaled = from_data(graphs_of_two_units(False)[0], scale_target=True)
    one = replace(scaled, preprocessing={**scaled.preprocessing, "target_mean": 700.0, "target_scale": 600.0})
    save(one, tmp_path / "packed.npz")
    assert "trained minus 700, divided by 600" in describe(read(tmp_path / "packed.npz"))[2]
