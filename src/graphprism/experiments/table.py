"""Makes a table from results of runs, with its JSON file and its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from graphprism._extras import needs_extra
from graphprism._files import write_whole
from graphprism._text import duration, score_text, signed
from graphprism.experiments.plan import PlannedCell
from graphprism.experiments.spec import READINGS, Reading, Settings, TableSpec
from graphprism.results import Cell, CellStatus, RunResult, Score, TableResult
from graphprism.training import Run

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

# Rows of baselines, by key in ``extra`` of results on nodes.
BASELINES = {"lookup": "Look-up", "majority": "Majority class"}
# A score less than so many points above the look-up is doubtful.
_CLOSE = 10.0


def baseline_rows(cells: Sequence[Cell], results: Mapping[str, RunResult]) -> tuple[Cell, ...]:
    """A cell for each baseline and column that has one: its mean over the folds that were run."""
    found = []
    for column in dict.fromkeys(cell.column for cell in cells):
        runs = [results[key] for cell in cells if cell.column == column for key in cell.runs]
        # a look-up uses the edges that its model sees; prefer one on the unchanged graph
        runs.sort(key=lambda run: not run.run.get("undirected", False))
        for name, row in BASELINES.items():
            by_split = {run.run.get("fold", 0): float(run.extra[name]) for run in runs if name in run.extra}
            score = Score.of(list(by_split.values()))
            if score is not None:
                found.append(Cell(row, column, score, note="parameter-free"))
    return tuple(sorted(found, key=lambda cell: list(BASELINES.values()).index(cell.row)))


def doubtful_columns(cells: Sequence[Cell], baselines: Sequence[Cell]) -> list[str]:
    """Columns in which the look-up comes within ten points of a model of ours, or beats it."""
    lookup = {cell.column: cell.ours.mean for cell in baselines if cell.row == BASELINES["lookup"] and cell.ours}
    ours = [(cell.column, cell.ours.mean) for cell in cells if cell.ours and cell.column in lookup]
    return list(dict.fromkeys(column for column, mean in ours if mean - lookup[column] < _CLOSE))


def make_table(
    spec: TableSpec,
    settings: Settings,
    cells: Sequence[PlannedCell],
    results: Mapping[str, RunResult],
    missing: Mapping[str, str] | None = None,
) -> TableResult:
    """The table with published numbers, and ours where runs have finished.

    Args:
        spec: The table.
        settings: Cells to run, and how.
        cells: Its cells with their runs, from `plan`.
        results: Results by key.
        missing: Reason why a data set is missing, by name.
    """
    missing = missing or {}
    made = tuple(_cell(planned, results, missing) for planned in cells)
    scores = [cell for cell, planned in zip(made, cells, strict=True) if planned.spec.reading == "test"]
    baselines = baseline_rows(scores, results)
    notes = [f"Not run: {reason}." for reason in missing.values()]
    if doubtful := doubtful_columns(scores, baselines):
        notes.append(
            f"Doubtful: on {', '.join(doubtful)} a look-up without parameters comes within ten points of a model: it "
            "copies the class of a training node with the same out-neighbours, else takes the majority class."
        )
    if any(cell.status is CellStatus.OTHER_PROTOCOL for cell in made):
        loud = CellStatus.OTHER_PROTOCOL.label.upper()
        other = "see the notes of cells" if settings.epochs is None else f"{settings.epochs} epochs"
        notes.insert(0, f"{loud}: {other}; gaps marked * say nothing about the paper.")
    return TableResult(
        name=spec.name if settings.epochs is None else f"{spec.name}-{settings.epochs}-epochs",
        title=spec.title,
        source=spec.source,
        rows=(*spec.rows, *dict.fromkeys(cell.row for cell in baselines)),
        columns=spec.columns,
        cells=(*made, *baselines),
        unit=spec.unit,
        larger_is_better=spec.larger_is_better,
        digits=spec.digits,
        notes=(*notes, *spec.notes),
    )


def _cell(planned: PlannedCell, results: Mapping[str, RunResult], missing: Mapping[str, str]) -> Cell:
    spec, reading = planned.spec, READINGS[planned.spec.reading]
    chosen = _choose(planned.configurations, results, reading)
    here = [results[run.key] for run in chosen if run.key in results]
    finished = [result for result in here if reading.value(result) is not None]
    ours = Score.of([value for result in finished if (value := reading.value(result)) is not None])
    return Cell(
        row=spec.row,
        column=spec.column,
        ours=ours,
        paper=spec.paper,
        seconds=sum(result.seconds for result in here) if here else None,
        note="; ".join(note for note in (*_notes(planned, chosen, results), spec.note) if note),
        runs=tuple(result.key for result in finished),
        status=_status(planned, chosen, here, ours, missing, results),
    )


def _choose(
    configurations: Sequence[Sequence[Run]], results: Mapping[str, RunResult], reading: Reading
) -> Sequence[Run]:
    """The configuration with the best mean over seeds, preferring those without diverged runs."""
    ranked = []
    for number, runs in enumerate(configurations):
        here = [results[run.key] for run in runs if run.key in results]
        values = [value for result in here if (value := reading.choose(result)) is not None]
        if values:
            largest = here[0].larger_is_better if reading.largest is None else reading.largest
            ranked.append((len(values) < len(here), -fmean(values) if largest else fmean(values), number))
    return configurations[min(ranked)[2]] if ranked else next(iter(configurations), ())


def _status(
    planned: PlannedCell,
    chosen: Sequence[Run],
    here: Sequence[RunResult],
    ours: Score | None,
    missing: Mapping[str, str],
    results: Mapping[str, RunResult],
) -> CellStatus:
    if planned.spec.best is None:
        return CellStatus.QUOTED
    if ours is not None:
        shares = planned.spec.reading == "step-ms" and bool(_step_note(here))
        published = chosen[0].epochs == planned.spec.best.epochs and _has_published(planned, results) and not shares
        return CellStatus.MEASURED if published else CellStatus.OTHER_PROTOCOL
    if any(result.status == "diverged" for result in here):
        return CellStatus.DIVERGED
    return CellStatus.NO_DATA if any(run.dataset in missing for run in chosen) else CellStatus.NOT_RUN


def _has_published(planned: PlannedCell, results: Mapping[str, RunResult]) -> bool:
    """Whether the published hyper-parameters have a result; without, the best of the others may be much worse."""
    return any(run.key in results for run in planned.configurations[0])


def _notes(planned: PlannedCell, chosen: Sequence[Run], results: Mapping[str, RunResult]) -> list[str]:
    here = [results[run.key] for run in chosen if run.key in results]
    if planned.spec.best is None or not here:
        return []
    diverged = sum(result.status == "diverged" for result in here)
    epochs = (chosen[0].epochs, planned.spec.best.epochs)
    return [
        f"{epochs[0]} epochs in place of {epochs[1]}" if epochs[0] != epochs[1] else "",
        f"{diverged} of {len(chosen)} runs diverged" if diverged else "",
        _chosen_note(planned, chosen, results) if diverged < len(here) else "",
        _step_note(here) if planned.spec.reading == "step-ms" else "",
    ]


def _step_note(results: Sequence[RunResult]) -> str:
    """States that step times of lockstep runs are shares, or that there are none; empty for runs alone."""
    if all(result.step_ms is None for result in results):
        return "steps were not timed: other processes shared the device"
    found = [result.hardware.get("runs_at_once", 1) for result in results]
    counts = [count if isinstance(count, int) else 1 for count in found]
    fewest, most = min(counts), max(counts)
    if most == 1:
        return ""
    runs, divisor = (f"{most}", f"{most}") if fewest == most else (f"{fewest} to {most}", "their number")
    return f"of {runs} runs in lockstep: the time of their step divided by {divisor}; the paper's is of one run alone"


def _chosen_note(planned: PlannedCell, chosen: Sequence[Run], results: Mapping[str, RunResult]) -> str:
    count = len(planned.configurations)
    if count < 2:
        return ""
    there = sum(all(run.key in results for run in runs) for runs in planned.configurations)
    tried = f"{count}" if there == count else f"{there} finished of {count}"
    without = "" if _has_published(planned, results) else ", not the published one"
    values = ", ".join(f"{name} {_plain(getattr(chosen[0], name))}" for name in planned.spec.grid)
    return f"{values}: best of {tried} configurations by mean {READINGS[planned.spec.reading].chosen_by}{without}"


def _plain(value: float | str | None) -> str:
    return str(value) if value is None or isinstance(value, str) else f"{value:g}"


def write_table(table: TableResult, out: Path) -> Path:
    """Writes ``tables/NAME.json`` below ``out``, atomically, and returns its path.

    Raises:
        OSError: It cannot be written.
    """
    path = out / "tables" / f"{table.name}.json"
    write_whole(path, table.to_json(), "tables")
    return path


# A note lists at most so many cells by name, else their number.
_MOST_NAMED = 5


def show_table(result: TableResult) -> Group:
    """Ours, the published number, gap, seeds and time of every cell; six columns fit into a width of 100."""
    with needs_extra("a coloured table"):
        from rich.console import Group
        from rich.text import Text

    notes = [*_cell_notes(result), *result.notes, f"Published numbers: {result.source}."]
    return Group(Text(result.title, style="bold"), _table(result), *(Text(note) for note in notes))


def _table(result: TableResult) -> Table:
    with needs_extra("a coloured table"):
        from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0), collapse_padding=True)
    table.add_column("", no_wrap=True)
    table.add_column("", no_wrap=True)
    for column in result.columns:
        table.add_column(column, justify="right")
    has_paper = any(cell.paper is not None for cell in result.cells)
    for row in result.rows:
        cells = [result.cell(row, column) for column in result.columns]
        # a row that was not chosen, of a table without published numbers; the notes count its cells as not run
        if all(cell is None or (cell.ours is None and cell.paper is None) for cell in cells):
            continue
        lines = [line for line in _lines(cells, result.digits) if line[0] != "paper" or has_paper]
        for number, (label, texts) in enumerate(lines):
            last = number == len(lines) - 1
            table.add_row(
                "" if number else row, label, *texts, end_section=last, style="dim" if label == "paper" else ""
            )
    return table


def _lines(cells: list[Cell | None], digits: int) -> list[tuple[str, list[str]]]:
    there = [Cell("", "") if cell is None else cell for cell in cells]
    lines = [
        ("ours", [_score(cell.ours, digits) for cell in there]),
        ("paper", [_score(cell.paper, digits) for cell in there]),
        ("gap", [_gap(cell, digits) for cell in there]),
        ("runs", [_runs(cell) for cell in there]),
    ]
    # Lines without a number are dropped, except the first two of a row.
    return [line for number, line in enumerate(lines) if number < 2 or any(line[1])]


def _score(score: Score | None, digits: int) -> str:
    return "-" if score is None else score_text(score.mean, score.deviation, digits, separator="±")


def _gap(cell: Cell, digits: int) -> str:
    if cell.gap is None:
        return ""
    return f"{signed(cell.gap, digits)}{'*' if cell.status is CellStatus.OTHER_PROTOCOL else ''}"


def _runs(cell: Cell) -> str:
    """Number of seeds of a cell and their total time."""
    if cell.ours is None or not cell.runs or cell.seconds is None:
        return ""
    return f"{cell.ours.count} in {duration(cell.seconds, narrow=True)}"


def _cell_notes(result: TableResult) -> list[str]:
    """Statuses and notes of cells: each distinct text once, with its cells."""
    places: dict[str, list[str]] = {}
    for cell in result.cells:
        label = cell.status.label if cell.paper is not None else cell.status.label.removeprefix("quoted; ")
        if text := "; ".join(part for part in (label, cell.note) if part):
            places.setdefault(text, []).append(f"{cell.row} {cell.column}")
    return [f"{_where(at, len(result.cells))}: {note}." for note, at in places.items()]


def _where(places: list[str], cells: int) -> str:
    if len(places) == cells:
        return "All cells"
    return ", ".join(places) if len(places) <= _MOST_NAMED else f"{len(places)} of {cells} cells"
