from dataclasses import replace

import pytest

from graphprism.report.summary import look_up
from tests.report.samples import run


def scored(score, *, larger=True, **extra):
    result = run(node=True, dataset="other")
    return look_up(replace(result, history={"test": [score]}, best_epoch=1, larger_is_better=larger, extra=extra))


@pytest.mark.parametrize(
    ("score", "lookup", "close"),
    [
        (80.0, 70.5, True),  # within ten points
        (80.0, 69.5, False),
        (70.0, 80.0, True),  # better than the model
    ],
)
def test_close(score, lookup, close):
    assert scored(score, lookup=lookup).close is close


def test_errors_count_the_other_way():
    assert scored(0.30, lookup=0.33, larger=False).close
    assert not scored(0.30, lookup=0.40, larger=False).close


def test_majority_is_optional_and_other_things_are_no_numbers():
    assert scored(0.8, lookup=0.5, majority=0.2).majority == 0.2
    assert scored(0.8, lookup=0.5).majority is None
    assert scored(0.8) is None
    assert scored(0.8, lookup="high") is None
    assert scored(None, lookup=0.5) is None
