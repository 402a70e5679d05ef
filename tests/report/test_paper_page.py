"""The page of Markdown, and that the committed one belongs to the committed ledgers."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphprism.cli.app import app
from graphprism.cli.report import paper_text
from graphprism.experiments import DEPTH, Ledger, Settings
from graphprism.experiments.pace import Pace
from graphprism.experiments.plan import plan
from graphprism.experiments.stored import read_ledgers, stored_tables
from graphprism.experiments.tables.remedies import remedies_spec
from graphprism.report.markdown import deviations_verdict, paper_page
from graphprism.results import Cell, CellStatus, RunResult, Score, TableResult
from graphprism.training import Run

ROOT = Path(__file__).parents[2]
RESULTS, PAGE = Path("benchmarks/results"), Path("benchmarks/PAPER.md")


def test_committed_page_belongs_to_the_committed_ledgers(monkeypatch):
    monkeypatch.chdir(ROOT)
    command = f"graphprism report --paper {RESULTS} --out {PAGE}"
    assert paper_text(RESULTS, PAGE) == PAGE.read_text("utf-8"), f"run `{command}` and commit {PAGE}"


def result(run: Run, test: float, seconds: float = 36.0) -> RunResult:
    history = {"train_loss": [0.5], "train": [0.5], "val": [0.4], "test": [test], "lr": [0.1], "seconds": [1.0]}
    return RunResult(
        key=run.key, run=run.to_dict(), status="finished", metric="mae", larger_is_better=False, history=history,
        best_epoch=1, parameters=10, width=4, step_ms=1.0, seconds=seconds, engine="lockstep",
        hardware={"name": "NVIDIA H200"}, commit=None, data=None, finished_at="2026-11-16T00:00:00+00:00",
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """Two seeds of the first cell of the depth table, and one run of another rate in the second."""
    cells = plan(DEPTH, Settings(seeds=2, grid="full"))
    first, second = cells[0].configurations[0], cells[1].configurations[1]
    ledgers = Ledger(tmp_path / "one.jsonl"), Ledger(tmp_path / "two.jsonl")
    for ledger, run, test in zip((*ledgers, ledgers[1]), (*first, second[0]), (0.58, 0.60, 0.7), strict=True):
        ledger.append(result(run, test))
    (tmp_path / "other.json").write_text("{}")
    return tmp_path


def test_cells_have_ours_or_the_hours_that_they_would_take(folder):
    tables, absent = stored_tables(folder)
    assert {"figure-2", "memory"} <= set(absent)
    depth = next(table for table in tables if table.name == "depth")
    one, two, eight = (depth.cell("GCN", layers) for layers in ("1", "2", "8"))
    assert (one.ours.mean, one.ours.count, one.seconds) == (pytest.approx(0.59), 2, 72.0)
    assert two.ours.count == 1
    assert (
        two.note == "lr 0.001: best of 0 finished of 3 configurations by mean validation score, not the published one"
    )
    assert eight.status is CellStatus.NOT_RUN
    # 36 s for one layer and for two: no line, so 18 s for each of eight layers
    assert eight.note == "projected: 0.12 h for 3 runs"
    text = paper_page(tables, "the command", absent)
    assert "| GCN | 1 | 0.590 ± 0.014 | 2 runs | 1 min 12 s | 0.591 ± 0.002 | inside both |  |" in text
    assert "| GCN | 8 |  |  |  | 0.404 ± 0.011 | **not run** | projected: 0.12 h for 3 runs |" in text
    assert "| [depth](#depth) | 60 | 2 | 1 | 0 | 0 | 1 | 58 |" in text
    assert "Nothing is stored of: figure-2" in text


def test_pace_takes_the_most_alike():
    gcn, mrs = Run("zinc12k", "gcn", layers=4, epochs=100), Run("zinc12k", "mrs-gcn", layers=4, epochs=100)
    pace = Pace([result(gcn, 0.1, 40.0), result(mrs, 0.1, 80.0), result(replace(mrs, seed=1), 0.1, 80.0)])
    assert pace.seconds(replace(gcn, layers=8)) == pytest.approx(80)
    assert pace.seconds(replace(mrs, epochs=50)) == pytest.approx(40)
    assert pace.seconds(replace(gcn, model="sage")) == pytest.approx(80)  # the median of all
    assert Pace([]).seconds(gcn) == 0
    blocks = Run("zinc12k", "gcne", layers=12, epochs=2000, ffn=True)
    assert 4 * Pace([]).seconds(blocks) == pytest.approx(15 * 60, rel=0.05)  # what we aim at
    done = result(blocks, 0.1, 100.0)
    assert Pace([done]).seconds(replace(blocks, model="gine", epochs=1000)) == pytest.approx(50)


def test_pace_is_on_the_line_through_the_nearest_depths():
    gcn = Run("zinc12k", "gcn", layers=2, epochs=100)
    times = {2: 30.0, 8: 36.0, 32: 84.0}
    stored = [result(replace(gcn, layers=layers), 0.1, seconds) for layers, seconds in times.items()]
    pace = Pace(stored)
    assert [pace.seconds(replace(gcn, layers=each)) for each in times] == pytest.approx(list(times.values()))
    assert pace.seconds(replace(gcn, layers=5)) == pytest.approx(33)
    assert pace.seconds(replace(gcn, layers=128)) == pytest.approx(84 + 2 * 96)
    falls = Pace([*stored[:2], result(replace(gcn, layers=32), 0.1, 10.0)])
    assert falls.seconds(replace(gcn, layers=128)) == pytest.approx(40)
    steep = Pace([result(replace(gcn, layers=8), 0.1, 8.0), result(replace(gcn, layers=16), 0.1, 100.0)])
    assert steep.seconds(replace(gcn, layers=1)) == pytest.approx(1)  # the line is below zero


def test_pace_of_one_depth_grows_as_that_of_less_similar_runs():
    gcn = Run("zinc12k", "gcn", layers=2, epochs=100, batch_size=128)
    small = replace(gcn, batch_size=32)
    stored = [result(small, 0.1, 100.0), result(replace(small, layers=8), 0.1, 150.0), result(gcn, 0.1, 10.0)]
    assert Pace(stored).seconds(replace(gcn, layers=8)) == pytest.approx(15)
    assert Pace(stored[2:]).seconds(replace(gcn, layers=8)) == pytest.approx(40)
    other = result(replace(gcn, model="sage", layers=8), 0.1, 1.0)  # of another network: nothing to learn from it
    assert Pace([*stored[2:], other]).seconds(replace(gcn, layers=16)) == pytest.approx(80)


def test_pace_compares_runs_that_are_trained_one_by_one():
    gcn = Run("zinc12k", "gcn", layers=2, epochs=100)
    pace = Pace([result(gcn, 0.1, 5.0), result(replace(gcn, remedy="gcnii"), 0.1, 50.0)])
    assert pace.seconds(replace(gcn, remedy="gcnii", seed=1)) == pytest.approx(50)
    assert pace.seconds(replace(gcn, remedy="pairnorm")) == pytest.approx(50)
    assert pace.seconds(replace(gcn, model="dir-gcn")) == pytest.approx(50)
    assert pace.seconds(replace(gcn, model="mrs-gcn", residual=True)) == pytest.approx(27.5)  # the median of all


def test_pace_takes_runs_on_a_shared_device_where_there_are_no_others():
    gcn = Run("zinc12k", "gcn", layers=2, epochs=100)
    shared = [replace(result(replace(gcn, layers=each), 0.1, 60.0 * each), step_ms=None) for each in (2, 8)]
    pace = Pace([*shared, result(replace(gcn, seed=1), 0.1, 40.0)])
    assert pace.seconds(gcn) == pytest.approx(40)
    assert pace.seconds(replace(gcn, layers=8)) == pytest.approx(480)


def test_pace_ignores_steps_of_0_1_that_were_not_captured():
    run = Run("zinc12k", "gcn", layers=4, epochs=100)
    done = result(replace(run, seed=1), 0.1, 80.0)
    old = replace(done, engine="eager", versions={"graphprism": "0.1.0"})
    assert Pace([old, result(run, 0.1, 40.0)]).seconds(run) == pytest.approx(40)
    for taken in (replace(old, engine="lockstep"), replace(old, versions={"graphprism": "0.2.0"})):
        assert Pace([taken]).seconds(run) == pytest.approx(80)


def test_pace_on_nodes_grows_with_the_graph_the_layers_and_the_epochs():
    cora = Run("cora", "gcn", batch_size=None, layers=2, epochs=1)
    squirrel = replace(cora, dataset="squirrel")  # 17 times the size
    pace = Pace([result(cora, 0.1, 3.0), result(squirrel, 0.1, 8.0), result(replace(cora, seed=1), 0.1, 3.0)])
    assert pace.seconds(replace(cora, layers=128)) == pytest.approx(64 * 3)
    assert pace.seconds(replace(cora, epochs=10)) == pytest.approx(10 * 3)
    assert pace.seconds(replace(cora, dataset="citeseer")) == pytest.approx(3 * (3_327 + 9_104) / (2_708 + 10_556))
    # a large graph is compared with the larger of the two
    sizes = (2_923_922 + 13_975_791) / (5_201 + 217_073)
    assert pace.seconds(replace(cora, dataset="snap-patents")) == pytest.approx(8 * sizes)
    assert pace.seconds(replace(cora, dataset="unknown")) == 0


def test_pace_on_nodes_takes_the_epochs_of_runs_that_stopped_early():
    early = Run("cora", "gcn", batch_size=None, layers=2, epochs=10_000, patience=50)
    done = result(early, 0.1, 60.0)
    done = replace(done, history={**done.history, "epoch": [300.0]})
    pace = Pace([done, result(replace(early, model="mlp"), 0.1, 1.0)])
    assert pace.seconds(replace(early, seed=1)) == pytest.approx(60)
    assert pace.seconds(replace(early, epochs=100)) == pytest.approx(20)
    assert pace.seconds(replace(early, patience=None)) == 0


@pytest.mark.parametrize("other", [{"a_later_field": 1}, {"model": "a-later-model"}, {"layers": 0}])
def test_pace_ignores_runs_of_other_versions(other):
    run = Run("zinc12k", "gcn", layers=4, epochs=100)
    known, later = result(run, 0.1, 40.0), result(replace(run, seed=1), 0.1, 80.0)
    pace = Pace([known, replace(later, run={**later.run, **other})])
    assert pace.seconds(run) == pytest.approx(40)


def test_pace_ignores_runs_without_epochs():
    run = Run("cora", "gcn", batch_size=None, epochs=1)
    assert Pace([replace(result(run, 0.1), history={}, best_epoch=None)]).seconds(run) == 0


def test_runs_without_a_finite_value_are_not_called_missing(tmp_path):
    spec = remedies_spec("cora", "node")
    best = next(cell.best for cell in spec.cells if cell.row == "LMGC 8")
    extra = {"effective_rank": None, "rank_one_distance": None, "gradient_last": 0.1, "gradient_first": 0.0}
    Ledger(tmp_path / "a.jsonl").append(replace(result(best, 31.9), extra=extra))
    table = next(table for table in stored_tables(tmp_path)[0] if table.name == spec.name)
    assert table.cell("LMGC 8", "effective rank").note == ""
    text = paper_page([table], "the command")
    assert "| [remedies-cora](#remedies-cora) | 336 | 3 | 0 | 0 | 0 | 0 | 330 |" in text


def test_newest_result_of_a_run_counts(tmp_path):
    run = Run("cora", "gcn", batch_size=None)
    old, new = result(run, 0.1), replace(result(run, 0.2), finished_at="2026-11-17T00:00:00+00:00")
    Ledger(tmp_path / "a.jsonl").append(new)
    Ledger(tmp_path / "b.jsonl").append(old)
    assert [each.history["test"] for each in read_ledgers(tmp_path)] == [[0.1], [0.2]]


@pytest.mark.parametrize(
    ("ours", "paper", "words"),
    [
        (Score(0.40, 0.02, 3), Score(0.41, 0.02), "inside both"),
        (Score(0.40, 0.002, 3), Score(0.41, 0.02), "inside the published"),
        (Score(0.40, 0.02, 3), Score(0.41, 0.002), "inside ours"),
        (Score(0.40, 0.002, 3), Score(0.41, 0.002), "outside both"),
        (Score(0.40, 0.002, 3), Score(0.4024, 0.002), "inside both"),
        (Score(0.40, None, 1), Score(0.41, 0.002), "outside the published"),
        (Score(0.40, None, 1), Score(0.4004), "the same"),
        (Score(0.40, None, 1), Score(0.41), "differs"),
        (Score(0.40, None, 1), None, ""),
        (None, Score(0.41), ""),
    ],
)
def test_verdicts(ours, paper, words):
    assert deviations_verdict(Cell("row", "column", ours, paper), 3) == words


def test_names_cannot_break_the_table():
    table = TableResult("t", "A <b>", "p | q", ("a|b",), ("c",), (Cell("a|b", "c", Score(1.0), note="x\ny"),))
    text = paper_page([table], "command")
    assert "| a\\|b | c | 1.000 |" in text
    assert "<b>" not in text
    assert "x y" in text


def test_command_writes_the_page(folder, tmp_path):
    out = tmp_path / "new" / "PAGE.md"
    run = CliRunner().invoke(app, ["report", "--paper", str(folder), "--out", str(out)])
    assert run.exit_code == 0, run.output
    assert out.read_text("utf-8") == paper_text(folder, out)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--paper", "none", "--out", "x.md"], "none: there is no such folder"),
        (["--paper", ".", "--out", "x.html"], "must be a file that ends in .md"),
        (["--paper", ".", "--out", "x.md"], "there is no ledger"),
    ],
)
def test_wrong_input_is_one_sentence(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke(app, ["report", *arguments])
    assert run.exit_code == 2
    assert words in run.stderr
    assert list(tmp_path.iterdir()) == []


def test_folder_without_ledgers_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no ledger"):
        read_ledgers(tmp_path)


def test_several_numbers_of_the_same_runs_share_a_line():
    cells = (
        Cell("none 2", "score", Score(0.5, 0.1, 2), runs=("a", "b"), seconds=7.0),
        Cell("none 2", "rank", Score(1e-9, None, 1), runs=("a",)),
        Cell("none 8", "score", note="projected: 1 h for 3 runs"),
        Cell("none 8", "rank", note="projected: 1 h for 3 runs"),
    )
    table = TableResult("t", "T", "nowhere", ("none 2", "none 8"), ("score", "rank"), cells)
    text = paper_page([table], "the command")
    assert "|  | score | rank | runs | time | note |" in text
    assert "| none 2 | 0.500 ± 0.100 | 1.0e−09 | 2 runs | 7 s |  |" in text
    assert "| none 8 |  |  |  |  | **not run**; projected: 1 h for 3 runs |" in text
    other = replace(table, cells=(cells[0], replace(cells[1], runs=("c",)), *cells[2:]))
    assert "| none 2 | rank |" in paper_page([other], "the command")


def test_quoted_and_re_run_scores_stand_beside_the_look_up():
    cells = (
        Cell("GCN", "Squirrel", Score(56.8, 1.4, 10), Score(53.4, 2.0, 10), runs=("a",)),
        Cell("H2GCN", "Squirrel", None, Score(37.9, 2.0, 10)),
        Cell("Look-up", "Squirrel", Score(69.3, 3.9, 10)),
    )
    rows = ("GCN", "H2GCN", "Look-up")
    text = paper_page([TableResult("t", "T", "nowhere", rows, ("Squirrel",), cells, digits=1)], "the command")
    assert "|  | Squirrel, quoted | Squirrel, re-run | Squirrel, over look-up |" in text
    assert "| GCN | 53.4 ± 2.0 | 56.8 ± 1.4 | −12.5 |" in text
    assert "| H2GCN | 37.9 ± 2.0 |  |  |" in text
    assert "| Look-up |  | 69.3 ± 3.9 |  |" in text


def test_remedies_have_their_stored_runs():
    tables, absent = stored_tables(ROOT / RESULTS)
    cora = next(table for table in tables if table.name == "remedies-cora")
    assert cora.cell("none 8", "effective rank").ours is not None
    assert "remedies" not in absent
