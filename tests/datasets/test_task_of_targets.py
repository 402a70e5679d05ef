"""The task that a target implies, and the column that an error about targets names."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphprism.datasets import from_data, from_files
from graphprism.datasets.targets import encode_target
from tests.datasets.own_files import write_people


@pytest.mark.parametrize(
    ("values", "task"),
    [
        ([0.09, 0.35, 0.09, 0.35], "regression"),
        ([0.0, 0.5, 0.0, 0.5], "regression"),
        ([0.0, 1.0, 1.0, 0.0], "binary"),
        ([-1.0, 1.0, 1.0, -1.0], "binary"),
        ([2, 7, 7, 2], "binary"),
        ([True, False, False, True], "binary"),
        (["0.09", "0.35", "no", "no"], "multiclass"),
        (["low", "high", "low", "high"], "binary"),
    ],
)
def test_encode_target_takes_whole_numbers_and_words_as_classes(values: list[object], task: str):
    column = np.array(values, dtype=object) if isinstance(values[0], str) else np.array(values)
    assert encode_target([column], None, "`y`").task == task


def test_encode_target_takes_two_fractions_as_classes_if_the_task_says_so():
    found = encode_target([np.array([0.09, 0.35, 0.35])], "binary", "`y`")
    assert (found.task, found.y.ravel().tolist()) == ("binary", [0, 1, 1])


def test_from_files_refuses_texts_that_hardly_repeat_as_classes(tmp_path: Path):
    prices = [f'"{row},{row % 10}5"' for row in range(60)]  # numbers with a decimal comma, between quotes
    folder = write_people(tmp_path / "people", income=prices)
    must = r"the target 'income' must hold numbers, .* got 60 different texts in 60 rows, such as '0,05' in row 1"
    with pytest.raises(ValueError, match=must):
        from_files(folder, target="income")
    assert from_files(folder, target="income", task="multiclass").num_classes == 60


@pytest.mark.parametrize(
    ("y", "task", "warned"),
    [
        (
            torch.eye(3).repeat(10, 1).long(),
            "multilabel",
            r"read as 3 labels although each row has a single 1: `y\.argmax",
        ),
        (torch.arange(30) % 4 - 1, "multiclass", "-1 in `y` is read as one of 4 classes: a missing target is NaN"),
    ],
)
def test_from_data_says_how_it_reads_one_hot_rows_and_minus_one(y: torch.Tensor, task: str, warned: str):
    edges = torch.tensor([[0, 1], [1, 0]])
    graph = Data(x=torch.rand(30, 2), edge_index=edges, y=y)
    graphs = [Data(x=torch.rand(2, 2), edge_index=edges, y=row[None]) for row in y]
    for data in (graph, graphs):
        with pytest.warns(UserWarning, match=warned):
            assert from_data(data).task == task
        assert from_data(data, task).task == task  # without a warning


def test_from_files_names_the_constant_column_among_several(tmp_path: Path):
    folder = write_people(tmp_path / "people", likes_b=[3] * 60)
    with pytest.raises(ValueError, match=r"csv: the target 'likes_b' must have at least two values, got '3' in all 60"):
        from_files(folder, target=["likes_a", "likes_b"])


def test_from_files_names_the_column_that_is_no_number_among_several(tmp_path: Path):
    folder = write_people(tmp_path / "people")
    with pytest.raises(ValueError, match=r"csv: the target 'sick' must hold numbers for the task regression"):
        from_files(folder, target=["income", "sick"], task="regression")


@pytest.mark.parametrize("columns", [1, 3])
def test_from_data_names_the_constant_column_among_several(columns: int):
    edges, y = torch.tensor([[0, 1], [1, 0]]), torch.rand(12, columns)
    y[:, -1] = 0.5
    graphs = [Data(x=torch.rand(2, 3), edge_index=edges, y=row) for row in y.split(1)]
    name = "`y`" if columns == 1 else "column 2 of `y`"
    with pytest.raises(ValueError, match=f"{name} must have at least two values, got '0.5' in all 12 rows"):
        from_data(graphs)
