"""All tables in one call: which runs, in which order, trained by what, and what is written."""

import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphprism import training
from graphprism.cli.app import app
from graphprism.datasets import load
from graphprism.experiments import (
    ALL_TABLES,
    DEPTH,
    ORDERINGS_64,
    CellSpec,
    Ledger,
    Settings,
    TableSpec,
    TrainedTable,
    all_tables,
)
from graphprism.experiments.plan import plan, runs_to_do
from graphprism.experiments.runner import trainer_for
from graphprism.results import TableResult
from tests.experiments.results_zoo import make_result
from tests.experiments.tiny_table import TINY, save_tiny

_LONG = replace(TINY.cells[0].best, layers=2, epochs=8)
# the first row is the longest, the second has a run of the other table, the third is on data that are not there
OTHER = TableSpec(
    name="other",
    title="Another table",
    source="nowhere",
    cells=(
        CellSpec("long", "Test", best=_LONG),
        CellSpec("shared", "Test", best=TINY.cells[0].best),
        CellSpec("absent", "Test", best=replace(_LONG, dataset="nowhere-to-be-found")),
    ),
    seeds=2,
)


class Quiet:
    def __init__(self):
        self.done, self.said = [], []

    def advance(self, title):
        self.done.append(title)

    def epoch(self, report): ...

    def say(self, line):
        self.said.append(line)


class Marking:
    """A trainer that marks its results."""

    def __init__(self, inner):
        self.inner, self.engine = inner, inner.engine

    def groups(self, runs):
        return self.inner.groups(runs)

    def train(self, runs, dataset, folder, on_epoch):
        found = self.inner.train(runs, dataset, folder, on_epoch)
        return [replace(each, extra={**each.extra, "marked": 1.0}) for each in found]


@pytest.fixture
def tables(monkeypatch):
    found = (TrainedTable(replace(OTHER, cells=OTHER.cells[:2])), TrainedTable(replace(TINY, seeds=1), wrap=Marking))
    monkeypatch.setattr(all_tables, "TABLES", found)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("data"))


def prepared(data, out, dry_run=False, **changes):
    options = {**{each.name: each.default for each in ALL_TABLES.options}, "engine": "eager", **changes}
    return ALL_TABLES.prepare(options, data, out, dry_run)


@pytest.fixture
def finished(tables, data, tmp_path):
    progress = Quiet()
    prepared(data, tmp_path).run(progress)
    return tmp_path, progress.done


def test_shortest_cells_come_first_and_shared_runs_once(finished):
    out, done = finished
    layers = [result.run["layers"] for result in Ledger(out / "ledger.jsonl").read()]
    # MRS-GCN and two seeds of the shared GCN, and then two of the long row
    assert layers == [1, 1, 1, 2, 2]
    assert len(done) == 5


def test_every_table_is_written_with_its_numbers(finished):
    out, _ = finished
    found = {path.stem: TableResult.from_json(path.read_text("utf-8")) for path in (out / "tables").iterdir()}
    assert set(found) == {"other", "tiny"}
    assert [found["other"].cell(row, "Test").ours.count for row in ("long", "shared")] == [2, 2]
    assert found["tiny"].cell("GCN", "Test").ours.mean in [
        result.at_best("test") for result in Ledger(out / "ledger.jsonl").read()
    ]


def test_summary_counts_what_is_left(tables, data, tmp_path):
    out = tmp_path / "out"

    def counts(**changes):
        shown = prepared(data, out, **changes).run(Quiet()).shown
        return [list(column.cells) for column in shown.columns]

    names = ["other", "tiny"]
    # the last cell of the tiny table is quoted only
    assert counts(seconds=1e-9) == [names, ["2", "5"], ["0", "0"], ["2", "4"]]
    assert counts() == [names, ["2", "5"], ["2", "4"], ["0", "0"]]


def test_runs_are_trained_as_their_table_does(finished):
    out, _ = finished
    marked = {result.key for result in Ledger(out / "ledger.jsonl").read() if "marked" in result.extra}
    assert marked == {cell.best.key for cell in TINY.cells if cell.best is not None}


def test_nothing_is_trained_twice(finished, data, monkeypatch):
    out, _ = finished
    monkeypatch.setattr(training, "train", lambda *given, **named: pytest.fail("must not train"))
    progress = Quiet()
    before = (out / "ledger.jsonl").read_bytes()
    prepared(data, out).run(progress)
    assert len(progress.done) == 5
    assert (out / "ledger.jsonl").read_bytes() == before
    assert prepared(data, out).plan() == ["0 runs to do for 2 tables."]


def test_stored_runs_of_the_same_data_are_not_trained(tables, data, tmp_path):
    identity = training.data_identity(load("tiny", data))
    runs = [replace(_LONG, seed=seed) for seed in (0, 1)]
    stored = Ledger(tmp_path / "stored" / "one.jsonl")
    stored.append(replace(make_result(runs[0]), data=identity))
    for run in runs:
        stored.append(replace(make_result(run), data="another"))
    job = prepared(data, tmp_path / "out", stored=stored.path.parent)
    job.run(Quiet())
    trained = {result.key for result in Ledger(tmp_path / "out" / "ledger.jsonl").read()}
    assert runs[0].key not in trained
    assert runs[1].key in trained
    assert len(trained) == job.steps == 4
    table = TableResult.from_json((tmp_path / "out" / "tables" / "other.json").read_text("utf-8"))
    assert table.cell("long", "Test").runs == tuple(run.key for run in runs)


@pytest.mark.parametrize("other", [{"data": "another"}, {"status": "diverged", "best_epoch": None}])
def test_stored_runs_are_shown_whatever_else_the_ledger_has(tables, data, tmp_path, other):
    identity = training.data_identity(load("tiny", data))
    stored = Ledger(tmp_path / "stored" / "one.jsonl")
    own = [replace(make_result(replace(_LONG, seed=seed)), data=identity) for seed in (0, 1)]
    for each in own:
        stored.append(each)
        Ledger(tmp_path / "out" / "ledger.jsonl").append(replace(each, **other, history={"test": [9.0, 9.0, 9.0]}))
    prepared(data, tmp_path / "out", stored=stored.path.parent, seconds=1e-9).run(Quiet())
    table = TableResult.from_json((tmp_path / "out" / "tables" / "other.json").read_text("utf-8"))
    assert table.cell("long", "Test").ours.mean == own[0].at_best("test")


def test_results_on_other_data_are_in_no_table(tables, data, tmp_path):
    Ledger(tmp_path / "ledger.jsonl").append(replace(make_result(_LONG), data="another"))
    prepared(data, tmp_path, seconds=1e-9).run(Quiet())
    assert not (tmp_path / "tables").exists()


def test_what_has_no_data_is_said_and_left_out(data, tmp_path, monkeypatch):
    monkeypatch.setattr(all_tables, "TABLES", (TrainedTable(OTHER),))
    with pytest.warns(UserWarning, match="nowhere-to-be-found"):
        job = prepared(data, tmp_path)
    assert job.steps == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lines = prepared(data, tmp_path, dry_run=True).plan()  # nothing is loaded
    assert lines[-1] == "6 runs to do for 1 table."


def test_time_limit_stops_and_the_next_call_goes_on(tables, data, tmp_path):
    progress = Quiet()
    prepared(data, tmp_path, seconds=1e-9).run(progress)
    assert progress.said == ["time is up, 5 runs to do; the same command resumes"]
    assert not (tmp_path / "tables").exists()
    prepared(data, tmp_path).run(progress)
    assert len(progress.done) == 5


def test_groups_keep_the_order_of_runs():
    class Pairs:
        engine = "lockstep"

        def groups(self, runs):
            return [runs[:2], runs[2:]] if len(runs) > 2 else [runs]

    runs = [replace(_LONG, seed=seed) for seed in range(5)]
    pairs, alone = Pairs(), trainer_for(runs, "eager")
    by_table = all_tables.ByTable({run.key: alone if run.seed == 1 else pairs for run in runs})
    assert [[run.seed for run in group] for group in by_table.groups(runs)] == [[0, 2], [1], [3, 4]]


def test_unknown_table_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"`tables` must be among .*, got dept; did you mean depth\?"):
        prepared(None, tmp_path, tables="zinc, dept")


def test_name_of_an_experiment_means_all_of_its_tables(tmp_path):
    job = prepared(None, tmp_path, dry_run=True, tables="remedies")
    assert [planned.table.name for planned in job.tables] == ["remedies-zinc12k", "remedies-cora"]


def test_plan_of_stored_results(tmp_path):
    command = ["reproduce", "all", "--tables", "Depth,orderings-64", "--dry-run", "--out", str(tmp_path)]
    lines = CliRunner().invoke(app, command).stdout.splitlines()
    cells = [cell for spec in (DEPTH, ORDERINGS_64) for cell in plan(spec, Settings(seeds=3))]
    assert lines[-1] == f"{len(runs_to_do(cells))} runs to do for 2 tables."
    stored = Path(__file__).parents[2] / "benchmarks" / "results"
    lines = CliRunner().invoke(app, [*command, "--stored", str(stored)]).stdout.splitlines()
    assert lines == ["0 runs to do for 2 tables."]
