import numpy as np
import pytest

from graphprism.datasets import DatasetFileError, read
from tests.datasets.rewrite import rewrite
from tests.datasets.small_sets import one_graph, three_graphs

LONG = np.zeros(6, int)[:, None]
BAD_GRAPHS = [
    ({"x": None}, {}, "`x` is missing"),
    ({"y": None}, {}, "`y` is missing"),
    ({"edge_index": None}, {}, "`edge_index` is missing"),
    ({"x": LONG[:5]}, {}, r"`x` must hold numbers in 6 rows, got shape \[5, 1\]"),
    ({"x": LONG[:, 0]}, {}, r"`x` must have shape \[6, F\], got \[6\]"),
    ({"x": np.array([["a"]] * 6)}, {}, "`x` must hold numbers in 6 rows"),
    ({"x": LONG + 28}, {}, r"`x` must hold numbers in \[0, 28\), got 28"),
    ({"x": LONG - 1}, {}, r"`x` must hold numbers in \[0, 28\), got -1"),
    ({"x": LONG / 2}, {}, "`x` must hold types, which are whole numbers, got float64"),
    ({"x": LONG + np.nan}, {"num_node_types": None}, "`x` must hold finite numbers, got 6 NaN or infinite among 6"),
    ({"x": np.array([{}] * 6, object)}, {}, "damaged or holds no plain arrays"),
    ({}, {"num_node_types": [28, 3]}, r"one number of types per column of `x`, got \[28, 3\]"),
    ({}, {"num_node_types": "28"}, "one number of types per column of `x`, got '28'"),
    ({"edge_index": np.array([[0, 1, 1, 3], [1, 0, 2, 1]])}, {}, "`edge_index` must name nodes of its own graph"),
    ({"edge_index": np.array([[0, 2, 1, 2], [1, 0, 2, 1]])}, {}, "`edge_index` must name nodes of its own graph"),
    ({"edge_index": np.zeros((2, 4))}, {}, "whole numbers `edge_index`"),
    ({"num_nodes": np.array([2, 3, 2])}, {}, "`x` must hold numbers in 7 rows"),
    ({"num_nodes": np.array([2, 4])}, {}, r"of the same shape \[G\]"),
    ({"num_edges": np.array([2, 2, 1])}, {}, "`num_edges` must add up to the 4 edges there are, got 5"),
    ({"edge_attr": LONG[:3]}, {}, "`edge_attr` must hold numbers in 4 rows"),
    ({"edge_attr": LONG[:4] + 4}, {}, r"`edge_attr` must hold numbers in \[0, 4\), got 4"),
    ({"y": np.zeros((2, 1))}, {}, "`y` must hold numbers in 3 rows"),
    ({"y": np.zeros(3)}, {}, r"`y` must have shape \[3, 'T'\]"),
    ({"y": np.array([[0], [np.nan], [1]])}, {}, "`y` must hold finite numbers, got 1 NaN"),
    ({"y": np.array([[0], [2], [1]])}, {"task": "multilabel"}, r"`y` must hold numbers in \[0, 2\), got 2"),
    ({"y": np.array([0, -1, 1])}, {"task": "multiclass"}, r"`y` must hold numbers in \[0, 1048576\), got -1"),
    ({"y": np.array([0.0, 1.0, 2.0])}, {"task": "multiclass"}, "`y` must hold classes"),
    ({"split": None}, {}, "`split` must hold 0, 1 or 2 for each of 3 graphs"),
    ({"split": np.zeros(2, int)}, {}, "`split` must hold 0, 1 or 2 for each of 3 graphs"),
    ({"split": np.array([0, 1, 3])}, {}, r"`split` must hold numbers in \[0, 3\), got 3"),
    ({"about": np.array("{half of")}, {}, "`about` must be JSON with name, level, task and metric"),
    ({"about": None}, {}, "`about` must be JSON"),
    ({}, {"level": "edge"}, r"name as level one of \['graph', 'node', 'link'\], got 'edge'"),
    ({}, {"task": "ranking"}, "name as task one of"),
    ({}, {"metric": ""}, "`about` must name the metric"),
    ({}, {"name": 3}, "`about` must name the name"),
    ({}, {"num_classes": "3"}, "must give num_classes as a whole number up to 1048576, got '3'"),
    ({}, {"num_classes": 10**12}, "must give num_classes as a whole number up to 1048576, got 10{12}"),
    ({"y": np.array([0, 10**12, 1])}, {"task": "multiclass"}, r"`y` must hold numbers in \[0, 1048576\), got 10{12}"),
    # Sums that wrap around to the right ones.
    ({"num_edges": np.array([2**63 - 1, 2**63 - 1, 6])}, {}, "`num_edges` must add up to the 4 edges there are"),
    (
        {"num_nodes": np.array([2**62, 2**62, 2**62, 2**62 + 6]), "num_edges": np.array([2, 2, 0, 0])},
        {},
        "fit into memory",
    ),
    ({}, {"directed": "no"}, "must say of directed true or false, got 'no'"),
]


@pytest.mark.parametrize(("arrays", "about", "message"), BAD_GRAPHS)
def test_bad_set_of_graphs(tmp_path, arrays, about, message):
    path = rewrite(tmp_path / "set.npz", three_graphs(), arrays, **about)
    with pytest.raises(DatasetFileError, match=message) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).endswith("; replace the file by a whole copy, or delete it and pack it again")
    assert caught.value.path == path


ONES = np.ones((3, 2), bool)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"val_mask": None}, r"must hold booleans of one shape \[3, S\]"),
        ({"val_mask": ONES[:, :1]}, r"must hold booleans of one shape \[3, S\]"),
        ({"val_mask": ONES[:2]}, r"must hold booleans of one shape \[3, S\]"),
        (dict.fromkeys(("train_mask", "val_mask", "test_mask"), ONES[:2]), r"must hold booleans of one shape \[3, S\]"),
        ({"val_mask": ONES.astype(int)}, r"must hold booleans of one shape \[3, S\]"),
        ({"val_mask": ONES}, "must not share nodes within a fold"),
        ({"y": np.array([[0], [1], [2]])}, "`y` must have shape"),
        ({"y": np.array([0, 3, 2])}, r"`y` must hold numbers in \[0, 3\), got 3"),
        ({"y": np.array([0, -1, 2])}, r"`y` must hold numbers in \[0, 3\), got -1"),
        ({"x": np.array([[0, 1], [np.nan, 0], [0, np.inf]])}, "`x` must hold finite numbers, got 2 NaN or infinite"),
        ({"test_mask": ONES & False}, "`test_mask` must hold a node in every fold, got none in fold 0"),
        ({"train_mask": ONES & [[True, False], [False, False], [False, False]]}, "`train_mask` .* none in fold 1"),
        (dict.fromkeys(("train_mask", "val_mask", "test_mask"), ONES[:, :0]), "`train_mask` must hold a node in every"),
    ],
)
def test_bad_set_of_nodes(tmp_path, arrays, message):
    with pytest.raises(DatasetFileError, match=message):
        read(rewrite(tmp_path / "set.npz", one_graph(), arrays, num_classes=3))


def test_booleans_are_zero_or_one(tmp_path):
    """numpy sizes memory by the sum of booleans, and fills it by their being other than zero."""
    mask = np.frombuffer(b"\x01\x00\x00\x02\x00\x00", bool).reshape(3, 2)
    path = rewrite(tmp_path / "set.npz", one_graph(), {"train_mask": mask})
    with pytest.raises(DatasetFileError, match="`train_mask` must hold booleans stored as 0 or 1, got 2"):
        read(path)


def test_nodes_without_edges_are_fine(tmp_path):
    path = rewrite(tmp_path / "set.npz", one_graph(), {"edge_index": np.zeros((2, 0), int), "num_edges": np.array([0])})
    graph = read(path).graph(0)
    assert graph.num_nodes == 3
    assert graph.edge_index.shape == (2, 0)
