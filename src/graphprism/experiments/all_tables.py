"""All tables of trained networks in one call: the runs that no ledger holds, those of the shortest cells first."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from graphprism import training
from graphprism._extras import needs_extra
from graphprism._text import counted, duration, suggest
from graphprism.datasets import PackedDataset
from graphprism.experiments.experiment import Option, Output, Progress, TrainedTable, listener_of, save_png_and_svg
from graphprism.experiments.pace import Pace
from graphprism.experiments.plan import PlannedCell, load_datasets, plan
from graphprism.experiments.runner import Trainer, of_present_data, run_missing, trainer_for
from graphprism.experiments.spec import OnEpoch, Settings
from graphprism.experiments.stored import read_ledgers
from graphprism.experiments.table import make_table, write_table
from graphprism.experiments.tables import TABLES, trained_of
from graphprism.ledger import Ledger
from graphprism.results import RunResult, TableResult, latest
from graphprism.training import Run
from graphprism.training.train import check_run

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class PlannedTable:
    """A table with the published runs of its cells."""

    table: TrainedTable
    settings: Settings

    @cached_property
    def cells(self) -> list[PlannedCell]:
        """The cells with their runs."""
        return plan(self.table.spec, self.settings)

    def missing(self, results: Mapping[str, RunResult]) -> Iterator[MissingRuns]:
        """The runs without a result, cell by cell."""
        for cell in self.cells:
            for runs in cell.configurations:
                if lacking := [run for run in runs if run.key not in results]:
                    yield MissingRuns(self, cell.spec.row, lacking)

    def trainer(self, run: Run) -> Trainer:
        """The trainer of a run of this table."""
        trainer = trainer_for([run], self.settings.engine)
        return trainer if self.table.wrap is None else self.table.wrap(trainer)

    def made(self, results: Mapping[str, RunResult], absent: Mapping[str, str]) -> TableResult:
        """The table with these results; ``absent`` says by name why data sets are missing."""
        names = {run.dataset for cell in self.cells for runs in cell.configurations for run in runs}
        own = {name: reason for name, reason in absent.items() if name in names}
        return make_table(self.table.spec, self.settings, self.cells, results, own)

    def write(self, made: TableResult, results: Mapping[str, RunResult], out: Path) -> list[Path]:
        """Writes the table and its figure, if it has one."""
        files = [write_table(made, out)]
        draw = self.table.draw
        return files if draw is None else [*files, *save_png_and_svg(draw(made, results), out, made.name)]


class MissingRuns(NamedTuple):
    """Runs of a cell that have no result."""

    table: PlannedTable
    row: str
    runs: list[Run]


@dataclass(frozen=True)
class ByTable:
    """A `Trainer` that trains each run as its table does.

    Attributes:
        trainers: The trainer of each run by its key.
        engine: Name of the engine; runs differ in it.
    """

    trainers: Mapping[str, Trainer]
    engine: str = "auto"

    def groups(self, runs: Sequence[Run]) -> list[list[Run]]:
        """Groups of the trainers, in the order of their first runs."""
        own: dict[Trainer, list[Run]] = {}
        for run in runs:
            own.setdefault(self.trainers[run.key], []).append(run)
        place = {run.key: number for number, run in enumerate(runs)}
        groups = [group for trainer, part in own.items() for group in trainer.groups(part)]
        return sorted(groups, key=lambda group: min(place[run.key] for run in group))

    def train(self, runs: Sequence[Run], dataset: PackedDataset, folder: Path, on_epoch: OnEpoch) -> list[RunResult]:
        """Trains one group."""
        return self.trainers[runs[0].key].train(runs, dataset, folder, on_epoch)


@dataclass(frozen=True)
class AllTables:
    """The `Experiment` of this file."""

    name: str = "all"
    help: str = "Train what the tables of trained networks lack, the shortest cells first; a later call goes on."

    @property
    def options(self) -> tuple[Option, ...]:
        """Which tables, with which results, how and for how long."""
        return (
            Option("tables", str | None, None, "Names of tables, comma-separated; default: all."),
            Option("stored", Path | None, None, "Folder of ledgers *.jsonl whose runs are not trained again."),
            Option("engine", str, "auto", "eager, lockstep (many runs at once on a GPU) or auto."),
            Option("seconds", float | None, None, "Stop training after this time; the same command resumes."),
        )

    def prepare(self, options: Mapping[str, Any], data: Path | None, out: Path, dry_run: bool = False) -> AllTablesJob:
        """Finds the missing runs and loads their data; warns about data sets that cannot be had."""
        settings = Settings(engine=options["engine"], seconds=options["seconds"])
        tables = tuple(
            PlannedTable(table, replace(settings, seeds=table.spec.seeds)) for table in _chosen(options["tables"])
        )
        results = [] if options["stored"] is None else read_ledgers(options["stored"])
        job = AllTablesJob(tables, latest(results), settings, out)
        return job if dry_run else job.with_data(data, results)


def _chosen(names: str | None) -> list[TrainedTable]:
    tables = [(experiment.name, table) for experiment in TABLES for table in trained_of(experiment)]
    known = dict.fromkeys(name for experiment, table in tables for name in (experiment, table.name))
    chosen = [name.strip().lower() for name in (names or "").split(",") if name.strip()]
    for name in chosen:
        if name not in known:
            raise ValueError(f"`tables` must be among {', '.join(known)}, got {name}{suggest(name, known)}")
    return [table for experiment, table in tables if not chosen or {experiment, table.name} & set(chosen)]


@dataclass(frozen=True)
class AllTablesJob:
    """The `Job` of `AllTables`.

    Attributes:
        tables: The tables.
        stored: Results by key that were trained elsewhere.
        settings: Engine and time limit.
        out: Folder of the ledger, of checkpoints and of tables.
        datasets: Data sets by name; None if only the plan is wanted.
        absent: Reason why a data set is missing, by name.
        fingerprints: Fingerprints of the data sets, by name; results of other data do not count.
        noun: Name of a step.
    """

    tables: tuple[PlannedTable, ...]
    stored: Mapping[str, RunResult]
    settings: Settings
    out: Path
    datasets: Mapping[str, PackedDataset] | None = None
    absent: Mapping[str, str] | None = None
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    noun: str = "run"

    def with_data(self, data: Path | None, results: Sequence[RunResult]) -> AllTablesJob:
        """The same with the data sets of the tables, and those of the stored ``results`` that were made from them."""
        names = {run.dataset for table in self.tables for cell in table.missing({}) for run in cell.runs}
        datasets, absent = load_datasets(sorted(names), data)
        for reason in absent.values():
            warnings.warn(reason, stacklevel=2)
        found = {name: training.data_identity(dataset) for name, dataset in datasets.items()}
        stored = latest(of_present_data(results, found))
        job = replace(self, stored=stored, datasets=datasets, absent=absent, fingerprints=found)
        for cell in job._missing(stored):
            for run in cell.runs:
                check_run(run, datasets[run.dataset])
        return job

    @property
    def ledger(self) -> Ledger:
        """The ledger of the folder."""
        return Ledger(self.out / "ledger.jsonl")

    @property
    def steps(self) -> int:
        """Number of runs that the stored results lack."""
        return sum(len(cell.runs) for cell in self._missing(self.stored))

    def _results(self) -> dict[str, RunResult]:
        own = of_present_data(self.ledger.read(), self.fingerprints)
        return latest([*self.stored.values(), *own])

    def _missing(self, results: Mapping[str, RunResult]) -> list[MissingRuns]:
        """The runs that ``results`` lack and whose data are there, each once, those of the shortest cells first."""
        pace, seen = Pace(self._results().values()), set[str]()
        cells = [cell for table in self.tables for cell in table.missing(results)]
        found = []
        for table, row, runs in sorted(cells, key=lambda cell: sum(map(pace.rank, cell.runs))):
            new = [run for run in runs if run.key not in seen and self._has_data(run)]
            seen.update(run.key for run in new)
            if new:
                found.append(MissingRuns(table, row, new))
        return found

    def _has_data(self, run: Run) -> bool:
        return self.datasets is None or run.dataset in self.datasets

    def plan(self) -> list[str]:
        """A line for each row without all of its runs, with their projected time, and the sum."""
        pace, rows = Pace(self._results().values()), dict[str, list[float]]()
        for table, row, runs in self._missing(self._results()):
            rows.setdefault(f"{table.table.name}, {row}", []).extend(map(pace.seconds, runs))
        lines = [f"{row}: {counted(times, 'run')}{_projected(times)}" for row, times in rows.items()]
        times = [seconds for times in rows.values() for seconds in times]
        return [*lines, f"{counted(times, 'run')} to do for {counted(self.tables, 'table')}{_projected(times)}."]

    def run(self, progress: Progress) -> Output:
        """Trains the missing runs; writes the tables that have results, and their figures."""
        cells, datasets = self._missing(self.stored), self.datasets or {}
        runs = [run for cell in cells for run in cell.runs]
        trainer = ByTable({run.key: cell.table.trainer(run) for cell in cells for run in cell.runs})
        run_missing(runs, datasets, self.ledger, self.out, trainer, listener_of(progress, runs), self.settings.seconds)
        results = self._results()
        made = [(table, table.made(results, self.absent or {})) for table in self.tables]
        files = [
            path
            for table, filled in made
            if any(cell.runs for cell in filled.cells)
            for path in table.write(filled, results, self.out)
        ]
        return Output(_summary([filled for _, filled in made]), tuple(files))


def _projected(times: Sequence[float]) -> str:
    """The time of runs on the hardware of `Pace`, as far as stored runs are like them."""
    unknown = sum(not seconds for seconds in times)
    parts = [
        f"{duration(math.fsum(times))} projected on an H200" if unknown < len(times) else "",
        f"{unknown:,} of unknown time" if 0 < unknown < len(times) else "",
    ]
    return "".join(f", {part}" for part in parts if part)


def _summary(tables: Sequence[TableResult]) -> Table:
    """Of each table its cells with a number of ours, and those without."""
    with needs_extra("a coloured table"):
        from rich.table import Table

    shown = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("table", "cells", "with results", "not run"):
        shown.add_column(name, justify="left" if name == "table" else "right")
    for table in tables:
        there = sum(cell.ours is not None for cell in table.cells)
        left = sum(cell.is_missing for cell in table.cells)
        shown.add_row(table.name, f"{len(table.cells)}", f"{there}", f"{left}")
    return shown


ALL_TABLES = AllTables()
