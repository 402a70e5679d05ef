import pytest

from graphprism.report.verdict import Verdict, verdict
from graphprism.results import Cell, CellStatus, Score, TableResult


def judged(ours, paper, *, larger=False, column="Test", status=CellStatus.MEASURED, digits=3):
    cell = Cell("GCN", column, ours, paper, status=status)
    return verdict(cell, TableResult("t", "", "", ("GCN",), (column,), (cell,), larger_is_better=larger, digits=digits))


@pytest.mark.parametrize(
    ("ours", "larger", "expected"),
    [
        (0.390, False, Verdict.BETTER),
        (0.418, False, Verdict.WORSE),
        (0.390, True, Verdict.WORSE),
        (0.418, True, Verdict.BETTER),
        (0.394, False, Verdict.WITHIN),
        (0.414, True, Verdict.WITHIN),
        (0.4144, False, Verdict.WITHIN),  # a gap that prints as the deviation
        (0.4146, False, Verdict.WORSE),
        (0.418, None, Verdict.DIFFERS),
        (0.404, None, Verdict.WITHIN),
    ],
)
def test_gap_against_the_published_deviation(ours, larger, expected):
    assert judged(Score(ours), Score(0.404, 0.010), larger=larger) is expected


@pytest.mark.parametrize("deviation", [None, 0.0])
def test_without_a_deviation_equal_print_is_within(deviation):
    assert judged(Score(0.4044), Score(0.404, deviation)) is Verdict.WITHIN
    assert judged(Score(0.4051), Score(0.404, deviation)) is Verdict.WORSE


def test_nothing_to_compare():
    assert judged(None, Score(0.4)) is Verdict.NOT_RUN
    assert judged(Score(0.4), None) is Verdict.OURS_ALONE
    assert judged(Score(9.0), Score(0.4), status=CellStatus.OTHER_PROTOCOL) is Verdict.OTHER_PROTOCOL


def test_columns_of_a_mixed_table_say_their_direction():
    assert judged(Score(0.6), Score(0.5), larger=None, column="Func test (AP)") is Verdict.BETTER
    assert judged(Score(0.6), Score(0.5), larger=None, column="Struct test (MAE)") is Verdict.WORSE


def test_every_verdict_has_its_own_sign_and_word():
    assert len({kind.sign for kind in Verdict}) == len({kind.label for kind in Verdict}) == len(Verdict)
