"""From the results of runs to a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from graphprism.experiments.any_run import AnyRun
from graphprism.experiments.baseline_rows import baseline_rows, doubtful_columns
from graphprism.experiments.plan import PlannedCell
from graphprism.experiments.readings import READINGS, Reading
from graphprism.experiments.settings import Settings
from graphprism.experiments.table_spec import TableSpec
from graphprism.results import Cell, RunResult, Score, TableResult

QUOTED = "quoted"
# Marks a cell whose gap says nothing about the published number.
NOT_PUBLISHED = "not the published protocol"


def make_table(
    spec: TableSpec,
    settings: Settings,
    cells: Sequence[PlannedCell],
    results: Mapping[str, RunResult],
    missing: Mapping[str, str] | None = None,
) -> TableResult:
    """The table with all that is known: ours where runs have finished, and the published numbers.

    Args:
        spec: The table.
        settings: What was asked for.
        cells: Its cells with their runs, as `plan` gives them.
        results: By the keys of runs.
        missing: Why a data set is not there, by its name.
    """
    missing = missing or {}
    made = tuple(_cell(planned, results, missing) for planned in cells)
    baselines = baseline_rows(made, results)
    notes = [f"Not run: {reason}." for reason in missing.values()]
    if doubtful := doubtful_columns(made, baselines):
        notes.append(
            f"Doubtful: on {', '.join(doubtful)} a look-up without parameters comes within ten points of a model: it "
            "copies the class of a training node with the same out-neighbours, else takes the majority class."
        )
    other = settings.epochs is not None and any(NOT_PUBLISHED in cell.note for cell in made)
    if other:
        notes.insert(
            0, f"{NOT_PUBLISHED.upper()}: {settings.epochs} epochs; gaps marked * say nothing about the paper."
        )
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
    notes = _notes(planned, chosen, results, ours is None, missing)
    return Cell(
        row=spec.row,
        column=spec.column,
        ours=ours,
        paper=spec.paper,
        seconds=sum(result.seconds for result in here) if here else None,
        note="; ".join(note for note in (*notes, spec.note) if note),
        runs=tuple(result.key for result in finished),
    )


def _choose(
    configurations: Sequence[Sequence[AnyRun]], results: Mapping[str, RunResult], reading: Reading
) -> Sequence[AnyRun]:
    """The configuration whose mean over seeds is best; those without a diverged run come first."""
    ranked = []
    for number, runs in enumerate(configurations):
        here = [results[run.key] for run in runs if run.key in results]
        values = [value for result in here if (value := reading.choose(result)) is not None]
        if values:
            largest = here[0].larger_is_better if reading.largest is None else reading.largest
            ranked.append((len(values) < len(here), -fmean(values) if largest else fmean(values), number))
    return configurations[min(ranked)[2]] if ranked else next(iter(configurations), ())


def _notes(
    planned: PlannedCell,
    chosen: Sequence[AnyRun],
    results: Mapping[str, RunResult],
    nothing: bool,
    missing: Mapping[str, str],
) -> list[str]:
    if planned.spec.best is None:
        return [QUOTED]
    diverged = sum(run.key in results and results[run.key].status == "diverged" for run in chosen)
    notes = [f"{diverged} of {len(chosen)} runs diverged" if diverged else ""]
    if nothing:
        no_data = any(run.dataset in missing for run in chosen)
        return [QUOTED, *notes] if diverged else [QUOTED, "no data" if no_data else "not run"]
    if chosen[0].epochs != planned.spec.best.epochs:
        notes.insert(0, f"{NOT_PUBLISHED}: {chosen[0].epochs} epochs in place of {planned.spec.best.epochs}")
    return [*notes, _chosen_words(planned, chosen, results)]


def _chosen_words(planned: PlannedCell, chosen: Sequence[AnyRun], results: Mapping[str, RunResult]) -> str:
    count = len(planned.configurations)
    if count < 2:
        return ""
    there = sum(all(run.key in results for run in runs) for runs in planned.configurations)
    tried = f"{count}" if there == count else f"{there} finished of {count}"
    values = ", ".join(f"{name} {getattr(chosen[0], name):g}" for name in planned.spec.grid)
    return f"{values}: best of {tried} configurations by mean {READINGS[planned.spec.reading].chosen_by}"
