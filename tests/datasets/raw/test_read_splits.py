import numpy as np
import pytest
import torch

from graphprism.datasets import DatasetFileError
from graphprism.datasets.raw import read_splits
from tests.datasets.raw.raw_node_files import NUM_NODES, masks, split_dictionaries, write_object_array


def stacked(splits: int = 5) -> dict[str, np.ndarray]:
    return {key: np.stack([split[key] for split in split_dictionaries(splits)]) for key in ("train", "valid", "test")}


def assert_masks(found: tuple[np.ndarray, ...], splits: int = 5) -> None:
    for one, other in zip(found, masks(splits), strict=True):
        assert one.tolist() == other.T.tolist()


def test_plain_arrays(tmp_path):
    np.savez(tmp_path / "a.npz", **stacked())
    assert_masks(read_splits(tmp_path / "a.npz", NUM_NODES))


def test_pickled_dictionaries_of_arrays_or_tensors(tmp_path):
    splits = split_dictionaries()
    assert_masks(read_splits(write_object_array(tmp_path / "a.npy", splits), NUM_NODES))
    tensors = [{key: torch.from_numpy(nodes) for key, nodes in split.items()} for split in splits]
    assert_masks(read_splits(write_object_array(tmp_path / "b.npy", tensors), NUM_NODES))
    lists = [{key: nodes.tolist() for key, nodes in split.items()} for split in splits[:1]]
    assert_masks(read_splits(write_object_array(tmp_path / "c.npy", lists), NUM_NODES), 1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"valid": None}, r"`train`, `valid` and `test` of shape \[S, n\]"),
        ({"valid": np.arange(3)}, r"`train`, `valid` and `test` of shape \[S, n\]"),
        ({"valid": np.zeros((4, 3), int)}, "with one number S of splits"),
        ({"valid": np.full((5, 3), NUM_NODES)}, r"`valid` must hold numbers of nodes in \[0, 10\), got 10 to 10"),
        ({"valid": np.full((5, 3), -1)}, r"`valid` must hold numbers of nodes in \[0, 10\), got -1 to -1"),
        ({"valid": np.ones((5, 3))}, "`valid` must hold whole numbers, got 3 of float64"),
        ({"valid": np.ones((5, 0), int)}, "`valid` must hold whole numbers, got 0 of int64"),
    ],
)
def test_bad_arrays(tmp_path, changed, message):
    arrays = {key: array for key, array in {**stacked(), **changed}.items() if array is not None}
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DatasetFileError, match=message):
        read_splits(tmp_path / "a.npz", NUM_NODES)


@pytest.mark.parametrize("objects", [[{"train": np.arange(3)}], [None], [np.arange(3)]])
def test_bad_objects(tmp_path, objects):
    with pytest.raises(DatasetFileError, match="every split must name its nodes for"):
        read_splits(write_object_array(tmp_path / "a.npy", objects), NUM_NODES)


@pytest.mark.parametrize("nodes", [["1"], [[1], [2]], [np.arange(3)] * 2, {"a": 1}, 3, None, [1.5], [2**70]])
def test_splits_of_anything_but_numbers(tmp_path, nodes):
    path = write_object_array(tmp_path / "a.npy", [{**split_dictionaries(1)[0], "valid": nodes}])
    with pytest.raises(DatasetFileError, match="`valid` must hold whole numbers"):
        read_splits(path, NUM_NODES)


@pytest.mark.parametrize("count", [0, 101])
def test_number_of_splits_is_bounded(tmp_path, count):
    path = write_object_array(tmp_path / "a.npy", split_dictionaries(1) * count)
    with pytest.raises(DatasetFileError, match=f"it must hold 1 to 100 splits, got {count}"):
        read_splits(path, NUM_NODES)
