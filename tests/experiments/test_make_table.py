import json
from dataclasses import replace

import pytest
from rich.console import Console

from graphprism.experiments import DEPTH, CellSpec, Settings, TableSpec, show_table
from graphprism.experiments.plan import plan
from graphprism.experiments.table import make_table
from graphprism.results import Cell, CellStatus, Score, TableResult
from graphprism.training import Run
from tests.experiments.results_zoo import diverged, make_result

RUN = Run("zinc12k", "gcn", lr=0.001, epochs=3)
GRID = {"lr": (0.001, 0.01), "layers": (8, 4)}


def table_of(results, reading="test", settings=None, best=RUN, missing=None, **fields):
    spec = TableSpec(
        "t", "Title", "source", (CellSpec("GCN", "Test", Score(0.2, 0.1, 3), best, GRID, reading),), **fields
    )
    settings = settings or Settings(seeds=2)
    return make_table(spec, settings, plan(spec, settings), {each.key: each for each in results}, missing)


def cell_of(*arguments, **settings):
    return table_of(*arguments, **settings).cells[0]


def runs(**changes):
    return [replace(RUN, seed=seed, **changes) for seed in range(2)]


def test_test_score_is_that_of_the_best_validation():
    cell = cell_of([make_result(runs()[0]), make_result(runs()[1], test=(0.1, 0.75, 0.1))])
    assert cell.ours == Score(0.5, pytest.approx(0.5 / 2**0.5), 2)
    assert cell.gap == pytest.approx(0.3)
    assert cell.seconds == 12
    assert cell.runs == tuple(run.key for run in runs())
    assert cell.note == ""


@pytest.mark.parametrize(("reading", "value"), [("train-loss", 0.1), ("train-score", 0.1), ("step-ms", 4.0)])
def test_other_readings(reading, value):
    assert cell_of([make_result(runs()[0])], reading).ours == Score(value, None, 1)


def test_largest_train_score_where_larger_is_better():
    assert cell_of([make_result(runs()[0], larger_is_better=True)], "train-score").ours.mean == 0.9


def test_best_of_the_grid_by_validation_not_by_test():
    good = [make_result(run, val=(0.1, 0.5, 0.5), test=(0.9, 0.0, 0.0)) for run in runs(lr=0.01, layers=4)]
    poor = [make_result(run, val=(0.2, 0.5, 0.5), test=(0.1, 0.0, 0.0)) for run in runs()]
    cell = cell_of([*poor, *good], settings=Settings(seeds=2, grid="full"))
    assert cell.ours.mean == 0.9
    assert cell.note == "lr 0.01, layers 4: best of 2 finished of 4 configurations by mean validation score"


def test_best_of_the_grid_where_larger_is_better():
    results = [make_result(run, val=(0.9, 0, 0), test=(1.0, 0, 0), larger_is_better=True) for run in runs(layers=4)]
    results += [make_result(run, val=(0.8, 0, 0), test=(2.0, 0, 0), larger_is_better=True) for run in runs()]
    assert cell_of(results, settings=Settings(seeds=2, grid="full")).ours.mean == 1.0


def test_train_column_is_chosen_by_training_loss():
    results = [make_result(run, loss=(0.3, 0.3, 0.3), val=(0.1, 0.1, 0.1)) for run in runs()]
    results += [make_result(run, loss=(0.2, 0.2, 0.2), val=(0.9, 0.9, 0.9)) for run in runs(layers=4)]
    results += [make_result(run, loss=(0.4, 0.4, 0.4)) for change in (8, 4) for run in runs(lr=0.01, layers=change)]
    cell = cell_of(results, "train-loss", Settings(seeds=2, grid="full"))
    assert cell.ours.mean == 0.2
    assert cell.note == "lr 0.001, layers 4: best of 4 configurations by mean training loss"


def test_training_loss_is_smallest_also_where_larger_scores_are_better():
    results = [make_result(run, loss=(0.3, 0.3, 0.3), larger_is_better=True) for run in runs()]
    results += [make_result(run, loss=(0.2, 0.2, 0.2), larger_is_better=True) for run in runs(layers=4)]
    assert cell_of(results, "train-loss", Settings(seeds=2, grid="full")).ours.mean == 0.2


def test_a_configuration_with_a_diverged_run_comes_last():
    shaky = [make_result(runs()[0], val=(0.0, 0.0, 0.0)), diverged(runs()[1])]
    steady = [make_result(run, val=(0.5, 0.5, 0.5), test=(0.7, 0.7, 0.7)) for run in runs(layers=4)]
    assert cell_of([*shaky, *steady], settings=Settings(seeds=2, grid="full")).ours.mean == pytest.approx(0.7)
    cell = cell_of(shaky)
    assert cell.ours.count == 1
    assert cell.note == "1 of 2 runs diverged"


def test_all_diverged_has_no_number_of_ours():
    cell = cell_of([diverged(run) for run in runs()])
    assert (cell.ours, cell.gap) == (None, None)
    assert (cell.status, cell.note) == (CellStatus.DIVERGED, "2 of 2 runs diverged")


def test_cells_without_runs_are_quoted():
    assert cell_of([]).status is CellStatus.NOT_RUN
    assert cell_of([], best=None).status is CellStatus.QUOTED
    assert cell_of([]).paper == Score(0.2, 0.1, 3)
    table = table_of([], missing={"zinc12k": "zinc12k: no such file"})
    assert table.cells[0].status is CellStatus.NO_DATA
    assert "Not run: zinc12k: no such file." in table.notes


def test_other_epochs_are_said_loudly():
    settings = Settings(seeds=2, epochs=2)
    table = table_of([make_result(run) for run in runs(epochs=2)], settings=settings)
    assert table.name == "t-2-epochs"
    assert table.notes[0].startswith("NOT THE PUBLISHED PROTOCOL: 2 epochs")
    assert table.cells[0].status is CellStatus.OTHER_PROTOCOL
    assert table.cells[0].note == "2 epochs in place of 3"
    assert "+0.050*" in text(table)
    same = table_of([make_result(run) for run in runs()], settings=Settings(seeds=2, epochs=3))
    assert "*" not in text(same)


def test_part_of_a_grid_without_the_published_configuration_is_another_protocol():
    full = Settings(seeds=2, grid="full")
    part = [make_result(run) for run in runs(layers=4)]
    table = table_of(part, settings=full)
    assert table.cells[0].status is CellStatus.OTHER_PROTOCOL
    assert table.notes[0].startswith("NOT THE PUBLISHED PROTOCOL: see the notes of cells; gaps marked *")
    assert table.cells[0].note.endswith(
        "1 finished of 4 configurations by mean validation score, not the published one"
    )
    rest = [make_result(run) for change in ((0.01, 8), (0.01, 4)) for run in runs(lr=change[0], layers=change[1])]
    assert cell_of([*part, *rest], settings=full).status is CellStatus.OTHER_PROTOCOL
    best = [make_result(run) for run in runs()]
    assert cell_of([*part, *best], settings=full).status is CellStatus.MEASURED  # whichever of the two is better
    assert cell_of([*part, *rest, *best], settings=full).status is CellStatus.MEASURED


def text(table, width=100):
    console = Console(width=width)
    with console.capture() as shown:
        console.print(show_table(table))
    return shown.get()


def test_rows_that_were_not_chosen_are_not_shown():
    result = table_of([make_result(run) for run in runs()])
    other = replace(result.cells[0], row="Other", ours=None, paper=None, runs=(), status=CellStatus.NOT_RUN)
    shown = text(replace(result, rows=(*result.rows, "Other"), cells=(*result.cells, other)))
    assert "Other Test: not run." in shown
    assert shown.count("Other") == 1
    assert "GCN" in shown


def test_shows_all_of_a_cell():
    shown = text(table_of([make_result(run) for run in runs()], notes=("A note.",)))
    for words in ("Title", "GCN", "Test", "0.250±0.000", "0.200±0.100", "+0.050", "2 in 12 s", "A note.", "source"):
        assert words in shown


def test_widest_table_fits_into_100_columns():
    settings = Settings(seeds=2)
    cells = plan(DEPTH, settings)
    results = {run.key: make_result(run) for cell in cells for runs in cell.configurations for run in runs}
    shown = text(make_table(DEPTH, settings, cells, results))
    assert max(map(len, shown.splitlines())) <= 100
    lines = [line for line in shown.splitlines() if "ours" in line]
    assert len(lines) == 10
    assert all(line.count("0.250±0.000") == 6 for line in lines)


def test_json_and_back():
    table = table_of([make_result(run) for run in runs()])
    assert TableResult.from_json(table.to_json()) == table


def without_status(table):
    """The JSON of a table that was written before cells had a status."""
    values = json.loads(table.to_json())
    for cell in values["cells"]:
        parts = (CellStatus(cell.pop("status")).label, cell["note"])
        separator = ": " if parts[0].startswith("not the") else "; "
        cell["note"] = separator.join(part for part in parts if part)
    return json.dumps(values)


@pytest.mark.parametrize(
    "table",
    [
        table_of([make_result(run) for run in runs()], notes=("A note.",)),
        table_of([make_result(run) for run in runs(epochs=2)], settings=Settings(seeds=2, epochs=2)),
        table_of([make_result(runs()[0]), diverged(runs()[1])]),
        table_of([diverged(run) for run in runs()]),
        table_of([], missing={"zinc12k": "zinc12k: no such file"}),
        table_of([]),
        table_of([], best=None),
    ],
    ids=["measured", "other-protocol", "one-diverged", "diverged", "no-data", "not-run", "quoted"],
)
def test_status_of_old_json_is_read_from_notes(table):
    assert TableResult.from_json(without_status(table)) == table


def test_cell_without_a_score_is_not_measured():
    assert Cell("GCN", "Test").status is CellStatus.NOT_RUN
    assert Cell("GCN", "Test", Score(1.0)).status is CellStatus.MEASURED
