import numpy as np
import pytest
import torch

from graphprism.datasets import DatasetFileError, load
from tests.datasets.raw.raw_node_files import EDGES, heterophilous_arrays, write_heterophilous

FILES = {
    "roman-empire": "directed_roman_empire.npz",
    "chameleon-filtered": "chameleon_filtered_directed.npz",
    "squirrel-filtered": "squirrel_filtered_directed.npz",
}


@pytest.mark.parametrize("name", FILES)
def test_everything_as_in_the_file(tmp_path, name):
    write_heterophilous(tmp_path / "raw" / name, FILES[name])
    dataset = load(name, tmp_path)
    graph, raw = dataset.graph(0), heterophilous_arrays()
    assert (dataset.name, dataset.level, dataset.directed) == (name, "node", True)
    assert torch.equal(graph.x, torch.from_numpy(raw["node_features"]))
    assert graph.edge_index.T.tolist() == EDGES.tolist()
    assert graph.y.tolist() == raw["node_labels"].tolist()
    assert dataset.num_outputs == {"roman-empire": 18}.get(name, 5)
    for part in ("train", "val", "test"):
        assert graph[f"{part}_mask"].T.tolist() == raw[f"{part}_masks"].tolist()
    # The second time the packed file is all there needs to be.
    (tmp_path / "raw" / name / FILES[name]).unlink()
    assert torch.equal(load(name, tmp_path).graph(0).x, graph.x)


def test_missing_file_says_where_to_get_it_and_where_to_put_it(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        load("roman-empire", tmp_path)
    message = str(caught.value)
    assert f"put directed_roman_empire.npz into {tmp_path / 'raw' / 'roman-empire'}" in message
    assert "published at https://drive.google.com/" in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"edges": None}, "`edges` is missing"),
        ({"edges": EDGES.T}, r"`edges` must have shape \[E, 2\], got \[2, 7\]"),
        ({"node_features": np.zeros(10)}, r"`node_features` must have shape \[N, F\], got \[10\]"),
        ({"val_masks": np.zeros((10, 9), bool)}, r"`val_masks` must have shape \[S, 10\], got \[10, 9\]"),
        ({"val_masks": np.zeros(10, bool)}, r"`val_masks` must have shape \[S, 10\], got \[10\]"),
        ({"node_labels": np.array([{}] * 10)}, "damaged or holds no plain arrays"),
    ],
)
def test_bad_file(tmp_path, changed, message):
    path = write_heterophilous(tmp_path / "raw" / "roman-empire", FILES["roman-empire"], **changed)
    with pytest.raises(DatasetFileError, match=message) as caught:
        load("roman-empire", tmp_path)
    assert caught.value.path == path
    assert not (tmp_path / "roman-empire.npz").exists()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"node_labels": np.full(10, 18)}, r"`y` must hold numbers in \[0, 18\), got 18"),
        ({"edges": EDGES + 3}, "`edge_index` must name nodes of its own graph"),
        ({"node_features": np.full((10, 2), np.nan)}, "`x` must hold finite numbers, got 20 NaN"),
        ({"test_masks": np.ones((10, 10), bool)}, "must not share nodes within a fold"),
        ({"test_masks": np.ones((9, 10), bool)}, r"must hold booleans of one shape \[10, S\]"),
    ],
)
def test_what_a_packed_file_must_not_hold_is_not_packed(tmp_path, changed, message):
    write_heterophilous(tmp_path / "raw" / "roman-empire", FILES["roman-empire"], **changed)
    with pytest.raises(ValueError, match=message):
        load("roman-empire", tmp_path)
    assert not (tmp_path / "roman-empire.npz").exists()
