import gzip

import numpy as np
import pytest
import torch

from graphprism.datasets import DatasetFileError, load
from tests.datasets.raw.raw_node_files import (
    EDGES,
    YEARS,
    features,
    masks,
    split_dictionaries,
    write_arxiv,
    write_object_array,
)


@pytest.fixture
def raw(tmp_path):
    write_arxiv(tmp_path / "raw" / "arxiv-year")
    return tmp_path / "raw" / "arxiv-year"


def test_everything_as_in_the_files(tmp_path, raw):
    write_object_array(raw / "arxiv-year-splits.npy", split_dictionaries())
    dataset = load("arxiv-year", tmp_path)
    graph = dataset.graph(0)
    assert torch.equal(graph.x, torch.from_numpy(features()))
    assert graph.edge_index.T.tolist() == EDGES.tolist()
    assert graph.y.tolist() == [0, 1, 1, 1, 2, 2, 3, 3, 4, 4]
    assert [graph[f"{part}_mask"].T.tolist() for part in ("train", "val", "test")] == masks(5).tolist()
    assert (dataset.directed, dataset.num_outputs, dataset.metric) == (True, 5, "accuracy")
    assert "drawn at random" not in dataset.note


def test_plain_splits_come_before_pickled_ones(tmp_path, raw):
    (raw / "arxiv-year-splits.npy").write_bytes(b"no array")
    splits = split_dictionaries(3)
    np.savez(raw / "arxiv-year-splits.npz", **{key: np.stack([one[key] for one in splits]) for key in splits[0]})
    assert load("arxiv-year", tmp_path).graph(0).train_mask.T.tolist() == masks(3)[0].tolist()


@pytest.mark.usefixtures("raw")
def test_without_splits_the_note_says_that_they_are_drawn(tmp_path):
    dataset = load("arxiv-year", tmp_path)
    assert dataset.note.startswith("The splits are not the published ones but drawn at random")
    assert "arxiv-year-splits.npy was missing" in dataset.note
    graph = dataset.graph(0)
    assert graph.train_mask.sum(0).tolist() == [5] * 5
    assert graph.val_mask.sum(0).tolist() == [2] * 5
    assert graph.test_mask.sum(0).tolist() == [3] * 5


@pytest.mark.parametrize("file", ["edge.csv.gz", "node-feat.csv.gz", "node_year.csv.gz", "num-node-list.csv.gz"])
def test_missing_file(tmp_path, raw, file):
    (raw / file).unlink()
    with pytest.raises(FileNotFoundError, match=rf"arxiv-year: .* put {file} into .*http://snap.stanford.edu/ogb/"):
        load("arxiv-year", tmp_path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"node_year": YEARS[:9, None]}, r"node_year.csv.gz: it must hold 10 rows of 1 numbers, got 9 of 1"),
        ({"node-feat": features()[:9]}, "node-feat.csv.gz: it must hold 10 rows of some numbers, got 9 of 4"),
        ({"edge": np.ones((4, 3), int)}, "edge.csv.gz: it must hold some rows of 2 numbers, got 4 of 3"),
        ({"edge": features()}, "edge.csv.gz: it is no whole table of numbers"),
        ({"node_year": [["year"]] * 10}, "node_year.csv.gz: it is no whole table of numbers"),
    ],
)
def test_bad_tables(tmp_path, raw, changed, message):
    write_arxiv(raw, **changed)
    with pytest.raises(DatasetFileError, match=message):
        load("arxiv-year", tmp_path)
    assert not (tmp_path / "arxiv-year.npz").exists()


def test_damaged_archive(tmp_path, raw):
    path = raw / "node-feat.csv.gz"
    for content in (path.read_bytes()[:-12], b"no archive", gzip.compress(b"\xff\xfe")):
        path.write_bytes(content)
        with pytest.raises(DatasetFileError, match=r"node-feat.csv.gz: it is no whole table of numbers"):
            load("arxiv-year", tmp_path)


def test_a_citation_of_a_paper_that_is_not_there(tmp_path, raw):
    write_arxiv(raw, edge=EDGES + 3)
    with pytest.raises(ValueError, match="`edge_index` must name nodes of its own graph"):
        load("arxiv-year", tmp_path)
