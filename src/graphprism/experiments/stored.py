"""Every table with the results of stored ledgers, and the projected time of its missing cells."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from graphprism._files import check_regular
from graphprism.experiments.pace import Pace
from graphprism.experiments.plan import PlannedCell, plan
from graphprism.experiments.spec import Settings, TableSpec
from graphprism.experiments.table import make_table
from graphprism.experiments.tables import TABLES, trained_of
from graphprism.ledger import Ledger
from graphprism.results import Cell, CellStatus, RunResult, TableResult, latest
from graphprism.training import Run


def read_ledgers(folder: Path) -> list[RunResult]:
    """The results of all ledgers ``*.jsonl`` of a folder, the oldest first; other lines are ignored.

    Raises:
        FileNotFoundError: There is none.
    """
    paths = sorted(folder.glob("*.jsonl"))
    if not paths:
        raise FileNotFoundError(f"{folder}: there is no ledger, a file that ends in .jsonl")
    with warnings.catch_warnings():  # benchmarks write other lines to such files
        warnings.simplefilter("ignore")
        found = [result for path in paths for result in Ledger(path).read()]
    return sorted(found, key=lambda result: result.finished_at)


def read_measured(folder: Path) -> dict[str, TableResult]:
    """The tables ``*.json`` of a folder by name; among tables of one name the last file wins."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            check_regular(path)
            table = TableResult.from_json(path.read_text("utf-8"))
        except (ValueError, OSError):
            continue  # JSON of a benchmark
        found[table.name] = table
    return found


def stored_tables(folder: Path) -> tuple[list[TableResult], list[str]]:
    """All tables of `graphprism reproduce`, filled from a folder of ledgers and measured tables.

    A cell has the runs of the published hyper-parameters or, if none of them has run, the best of the grid. The note of
    a cell without results gives the projected time of its runs. Also returns the names of experiments that are not in
    the folder: figures and measured tables.

    Args:
        folder: Folder of ledgers ``*.jsonl`` and measured tables ``*.json``.
    """
    results = latest(read_ledgers(folder))
    measured, pace = read_measured(folder), Pace(results.values())
    found, absent = [], []
    for experiment in TABLES:
        if trained := trained_of(experiment):
            found += [_stored_table(table.spec, results, pace) for table in trained]
        elif own := [name for name in measured if name == experiment.name or name.startswith(f"{experiment.name}-")]:
            found += [measured[name] for name in own]
        else:
            absent.append(experiment.name)
    return found, absent


def _stored_table(spec: TableSpec, results: Mapping[str, RunResult], pace: Pace) -> TableResult:
    best = Settings(seeds=spec.seeds)
    cells = plan(spec, best)
    datasets = {str(each.run.get("dataset")) for each in results.values()}
    missing = [each for each in cells if _may_have_others(each, datasets) and not _has_results(each, results)]
    wide = {id(each.spec): each for each in plan(_only(spec, missing), replace(best, grid="full"))} if missing else {}
    wide = {key: each for key, each in wide.items() if _has_results(each, results)}
    cells = [wide.get(id(each.spec), each) for each in cells]
    table = make_table(spec, best, cells, results)
    runs = {(each.spec.row, each.spec.column): each.configurations for each in cells}
    noted = [_with_projection(cell, runs.get((cell.row, cell.column), ()), spec.seeds, pace) for cell in table.cells]
    return replace(table, cells=tuple(noted))


def _only(spec: TableSpec, cells: Sequence[PlannedCell]) -> TableSpec:
    return replace(spec, cells=tuple(each.spec for each in cells))


def _may_have_others(planned: PlannedCell, datasets: set[str]) -> bool:
    """Whether configurations beside the published one may have results: a cheap test, since keys of a grid are slow."""
    best = planned.spec.best
    return best is not None and bool(planned.spec.grid) and best.dataset in datasets


def _has_results(planned: PlannedCell, results: Mapping[str, RunResult]) -> bool:
    return any(run.key in results for runs in planned.configurations for run in runs)


def _with_projection(cell: Cell, configurations: Sequence[Sequence[Run]], seeds: int, pace: Pace) -> Cell:
    if cell.status is not CellStatus.NOT_RUN or not configurations or cell.seconds is not None:
        return cell
    hours = seeds * pace.seconds(configurations[0][0]) / 3600
    note = f"projected: {hours:.2g} h for {seeds} runs"
    return replace(cell, note="; ".join(part for part in (note, cell.note) if part))
