from graphprism.report.verdict import best_cells
from graphprism.results import Cell, Score, TableResult


def table(rows, *, larger=False, digits=3):
    cells = tuple(Cell(row, "Test", None if ours is None else Score(ours), Score(1.0)) for row, ours in rows.items())
    return TableResult("t", "", "", tuple(rows), ("Test",), cells, larger_is_better=larger, digits=digits)


def best(rows, **settings):
    return {row for row, _ in best_cells(table(rows, **settings), "ours")}


def test_best_of_each_pair():
    rows = {"GCN": 0.4, "MRS-GCN": 0.3, "GCN + Res": 0.1, "MRS-GCN + Res": 0.2, "MLP": 0.0}
    assert best(rows) == {"MRS-GCN", "GCN + Res"}
    assert best(rows, larger=True) == {"GCN", "MRS-GCN + Res"}


def test_without_pairs_the_column_is_compared():
    assert best({"GCN": 0.4, "MRS-GCN (random)": 0.6, "MRS-GCN (degree)": 0.3}) == {"MRS-GCN (degree)"}


def test_alike_in_print_are_both_best_and_one_alone_is_not():
    assert best({"GCN": 0.3001, "MRS-GCN": 0.3004}) == {"GCN", "MRS-GCN"}
    assert best({"GCN": 0.3, "MRS-GCN": None}) == set()


def test_no_direction_has_no_best():
    assert best({"GCN": 1, "MRS-GCN": 2}, larger=None) == set()


def test_published_side():
    assert len(best_cells(table({"GCN": None, "MRS-GCN": None}), "paper")) == 2
