from graphprism.experiments.table import baseline_rows, doubtful_columns
from graphprism.results import Cell, RunResult, Score


def result(key, fold, lookup, majority):
    return RunResult(
        key, {"fold": fold}, "finished", "accuracy", True, {}, None, 1, 1, None, 0.0, "eager",
        extra={"lookup": lookup, "majority": majority},
    )  # fmt: skip


RESULTS = {
    each.key: each for each in (result("a", 0, 70.0, 20.0), result("b", 1, 74.0, 22.0), result("c", 0, 70.0, 20.0))
}
CELLS = (
    Cell("Dir-GNN", "Squirrel", Score(75.0, 1.0, 2), runs=("a", "b")),
    Cell("MRS-Dir-GNN", "Squirrel", Score(90.0, None, 1), runs=("c",)),
    Cell("MLP", "Cora", Score(60.0, None, 1), runs=()),
)


def test_each_split_counts_once():
    lookup, majority = baseline_rows(CELLS, RESULTS)
    assert (lookup.row, lookup.column, lookup.ours.mean, lookup.ours.count) == (
        "Look-up", "Squirrel", 72.0, 2,
    )  # fmt: skip
    assert (majority.row, majority.ours.mean) == ("Majority class", 21.0)


def test_runs_without_baselines_make_no_rows():
    assert baseline_rows(CELLS[2:], RESULTS) == ()


def test_a_close_look_up_is_named():
    assert doubtful_columns(CELLS, baseline_rows(CELLS, RESULTS)) == ["Squirrel"]
    assert doubtful_columns(CELLS[1:], baseline_rows(CELLS, RESULTS)) == []


def test_look_up_of_the_graph_as_it_is_comes_before_that_of_an_undirected_one():
    other = result("d", 0, 58.0, 20.0)
    other.run["undirected"] = True
    cells = (*CELLS[:2], Cell("GPR-GNN", "Squirrel", Score(70.0, None, 1), runs=("d",)))
    assert baseline_rows(cells, {**RESULTS, "d": other})[0].ours.mean == 72.0
    assert baseline_rows(cells[2:], {"d": other})[0].ours.mean == 58.0
