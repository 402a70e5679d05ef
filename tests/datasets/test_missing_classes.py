from dataclasses import replace

import pytest
import torch

from graphprism.datasets import read, save
from graphprism.datasets.packed_file import missing_classes
from tests.datasets.small_sets import one_graph, three_graphs

TWO_SPLITS = torch.tensor([[True, True], [True, True], [True, False]])


@pytest.mark.parametrize(
    ("train_mask", "words"),
    [
        (TWO_SPLITS, "A class has no training node in 1 of 2 splits, first class 1 in split 1."),
        (~TWO_SPLITS, "A class has no training node in 2 of 2 splits, first class 0 in split 0."),
        (TWO_SPLITS | True, ""),
    ],
)
def test_by_hand(train_mask, words):
    assert missing_classes(replace(one_graph(), train_mask=train_mask)) == words


def test_a_class_that_no_node_has_is_not_missing():
    assert missing_classes(replace(one_graph(), train_mask=TWO_SPLITS | True, num_classes=5)) == ""
    assert missing_classes(three_graphs()) == ""


def test_note_of_a_file_gets_it_once_and_the_outputs_stay(tmp_path):
    dataset = replace(one_graph(), note="Mine.")
    save(dataset, tmp_path / "a.npz")
    first = read(tmp_path / "a.npz")
    assert first.note == f"Mine. {one_graph().note}"
    assert first.num_outputs == 3
    save(first, tmp_path / "b.npz")
    assert read(tmp_path / "b.npz").note == first.note
