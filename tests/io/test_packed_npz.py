import json

import numpy as np
import pytest
import torch

from graphprism.io import GraphFileError, read_graph


@pytest.fixture
def packed(tmp_path):
    def pack(**arrays):
        path = tmp_path / "set.npz"
        np.savez(path, **arrays)
        return path

    return pack


TWO = {
    "edge_index": np.array([[0, 1, 1], [1, 0, 2]]),
    "num_nodes": np.array([2, 3]),
    "num_edges": np.array([2, 1]),
    "x": np.arange(5)[:, None],
    "edge_attr": np.array([[0.5], [1.5], [2.5]], np.float32),
}


def test_several_graphs_become_one_batch(packed):
    graph = read_graph(packed(**TWO, about=np.array(json.dumps({"name": "two"}))))
    assert graph.edge_index.tolist() == [[0, 1, 3], [1, 0, 4]]
    assert graph.batch.tolist() == [0, 0, 1, 1, 1]
    assert graph.num_nodes == 5
    assert graph.x.tolist() == [[0], [1], [2], [3], [4]]
    assert graph.x.dtype == torch.long
    assert graph.edge_attr.dtype == torch.float32
    assert graph.name == "two"


def test_one_graph_has_no_sizes(packed):
    graph = read_graph(packed(edge_index=np.array([[0], [3]]), x=np.zeros((4, 2)), about=np.array("not JSON")))
    assert graph.num_nodes == 4
    assert graph.batch is None
    assert graph.name == "set"


def test_a_set_without_features(packed):
    graph = read_graph(packed(edge_index=np.zeros((2, 0), np.int32), num_nodes=np.array(3)))
    assert (graph.num_nodes, graph.edge_index.shape, graph.x) == (3, (2, 0), None)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"edge_index": np.array([[0, 1, 1], [1, 2, 2]])}, "`edge_index` must name nodes of its own graph"),
        ({"edge_index": np.array([[0, 1, 1], [1, -1, 2]])}, "`edge_index` must name nodes of its own graph"),
        ({"edge_index": np.zeros((3, 3), int)}, r"must hold whole numbers `edge_index` of shape \[2, E\]"),
        ({"edge_index": np.zeros((2, 3))}, r"must hold whole numbers `edge_index` of shape \[2, E\]"),
        ({"num_edges": np.array([2, 2])}, "`num_edges` must add up to the 3 edges there are, got 4"),
        ({"num_edges": np.array([4, -1])}, "`num_edges` must add up"),
        ({"num_edges": np.array([3])}, r"of the same shape \[G\]"),
        ({"num_nodes": np.array([2.0, 3.0])}, "must hold `x`, or whole numbers"),
        ({"x": np.zeros((4, 1))}, r"`x` must hold numbers in 5 rows, got shape \[4, 1\]"),
        ({"x": np.array(["a"] * 5)}, "`x` must hold numbers in 5 rows"),
        ({"edge_attr": np.zeros(2)}, "`edge_attr` must hold numbers in 3 rows"),
        ({"x": np.array([{}] * 5, dtype=object)}, "damaged or holds no plain arrays"),
    ],
)
def test_bad_arrays(packed, changed, message):
    with pytest.raises(GraphFileError, match=message):
        read_graph(packed(**{**TWO, **changed}))


def test_missing_arrays(packed):
    with pytest.raises(GraphFileError, match="must hold whole numbers `edge_index`"):
        read_graph(packed(x=np.zeros((2, 1))))
    with pytest.raises(GraphFileError, match="must hold `x`, or whole numbers `num_nodes`"):
        read_graph(packed(edge_index=np.zeros((2, 0), int)))


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.9])
def test_a_file_that_was_cut_off(packed, kept):
    path = packed(**TWO)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])
    with pytest.raises(GraphFileError, match=r"set.npz: the .npz file is damaged"):
        read_graph(path)


def test_a_file_with_changed_bytes(packed):
    path = packed(**TWO)
    content = bytearray(path.read_bytes())
    place = content.index(b"NUMPY") + 130  # within the numbers of the first array
    content[place] ^= 255
    path.write_bytes(content)
    with pytest.raises(GraphFileError, match="damaged"):
        read_graph(path)
