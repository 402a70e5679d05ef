"""The task that a target implies, and the column that an error about targets names."""

import numpy as np
import pytest

from graphprism.datasets.targets import encode_target


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
