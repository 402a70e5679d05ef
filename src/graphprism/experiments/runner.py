"""Trains the runs that a ledger lacks, for any list of runs or for a table of the paper."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import torch

from graphprism import training
from graphprism.datasets import PackedDataset
from graphprism.experiments.plan import Estimate, PlannedCell, estimate, load_datasets, plan, runs_to_do
from graphprism.experiments.spec import OnEpoch, Settings, TableSpec
from graphprism.experiments.table import make_table, write_table
from graphprism.ledger import Ledger, claim_all
from graphprism.results import RunResult, TableResult, latest
from graphprism.training import Diverged, Run
from graphprism.training.train import check_run, lockstep_key

# Seconds between two polls of the claims of other processes.
_POLL_SECONDS = 1.0


class Trainer(Protocol):
    """Trains runs, one by one or many at once.

    Attributes:
        engine: Name of the engine in its results, for estimates.
    """

    @property
    def engine(self) -> str:
        """Name of the engine."""

    def groups(self, runs: Sequence[Run]) -> list[list[Run]]:
        """Groups of runs that are trained together; a group has one data set."""

    def train(self, runs: Sequence[Run], dataset: PackedDataset, folder: Path, on_epoch: OnEpoch) -> list[RunResult]:
        """Trains one group with checkpoints in ``folder``; returns a result per run, also for diverged ones."""


def trainer_for(runs: Sequence[Run], engine: str = "auto", accelerator: str = "auto") -> Trainer:
    """Chooses a trainer for these runs: many at once, or one after another.

    Args:
        runs: The runs to train; all on graphs, or all on nodes.
        engine: One of `graphprism.results.ENGINES`; ``"auto"`` trains many runs at once where that is possible.
        accelerator: One of `graphprism.results.ACCELERATORS`.

    Raises:
        ValueError: Lockstep was requested and is not possible here.
    """
    on_nodes = all(run.batch_size is None for run in runs)
    possible = on_nodes or (torch.cuda.is_available() and accelerator != "cpu")
    if engine == "lockstep" and not possible:
        raise ValueError("`engine` must be eager or auto on this machine: lockstep needs a CUDA device, got 'lockstep'")
    return _LockstepTrainer(accelerator) if possible and engine != "eager" else _EagerTrainer(accelerator)


@dataclass(frozen=True)
class _EagerTrainer:
    accelerator: str
    engine: str = "eager"

    def groups(self, runs: Sequence[Run]) -> list[list[Run]]:
        return [[run] for run in runs]

    def train(self, runs: Sequence[Run], dataset: PackedDataset, folder: Path, on_epoch: OnEpoch) -> list[RunResult]:
        return [self._train(run, dataset, folder, on_epoch) for run in runs]

    def _train(self, run: Run, dataset: PackedDataset, folder: Path, on_epoch: OnEpoch) -> RunResult:
        try:
            return training.train(
                run, dataset, folder=folder, accelerator=self.accelerator, engine="eager", on_epoch=on_epoch
            )
        except Diverged as error:
            return error.result


@dataclass(frozen=True)
class _LockstepTrainer:
    accelerator: str
    engine: str = "lockstep"

    def groups(self, runs: Sequence[Run]) -> list[list[Run]]:
        groups: dict[str, list[Run]] = {}
        for run in runs:
            groups.setdefault(lockstep_key(run), []).append(run)
        return list(groups.values())

    def train(self, runs: Sequence[Run], dataset: PackedDataset, folder: Path, on_epoch: OnEpoch) -> list[RunResult]:
        return training.train_lockstep(runs, dataset, folder=folder, accelerator=self.accelerator, on_epoch=on_epoch)


OnRun: TypeAlias = Callable[[RunResult], None]


@dataclass(frozen=True)
class Listener:
    """Callbacks of `run_missing`; the defaults do nothing.

    Attributes:
        on_run: Called with each result, also those of other processes.
        on_epoch: Called with the `graphprism.training.EpochReport` of each epoch.
        on_wait: Called once with the number of remaining runs when all of them are claimed by other processes.
        on_stop: Called with the number of remaining runs when a time limit is reached.
    """

    on_run: OnRun = lambda result: None
    on_epoch: OnEpoch = lambda report: None
    on_wait: Callable[[int], None] = lambda count: None
    on_stop: Callable[[int], None] = lambda count: None


class _TimeIsUp(Exception):
    """Ends training between two epochs; checkpoints are written on its way."""


def run_missing(
    runs: Sequence[Run],
    datasets: Mapping[str, PackedDataset],
    ledger: Ledger,
    out: Path,
    trainer: Trainer,
    listener: Listener | None = None,
    seconds: float | None = None,
) -> None:
    """Trains each run without a result in the ledger and appends its result; returns when all have one.

    With a time limit it also returns when that is reached: the runs in training stop after their epoch, and a later
    call resumes them from their checkpoints. Several processes may do so concurrently: each run is trained by the
    process that claims it. An interrupted run resumes from its checkpoint. A diverged run gets a result with status
    ``"diverged"``.

    Args:
        runs: All runs whose results are wanted.
        datasets: Data sets by the names that the runs use.
        ledger: Results are appended to it.
        out: Folder of ``checkpoints`` and ``locks``.
        trainer: Trains them; see `trainer_for`.
        listener: Callbacks.
        seconds: Time limit; None for none.
    """
    end = math.inf if seconds is None else time.monotonic() + seconds
    listener = listener or Listener()

    def on_epoch(report: Any) -> None:
        listener.on_epoch(report)
        if time.monotonic() >= end:
            raise _TimeIsUp

    fingerprints = {name: training.data_identity(dataset) for name, dataset in datasets.items()}
    worker = _Worker(datasets, fingerprints, ledger, out, trainer, replace(listener, on_epoch=on_epoch))
    left = worker.without_finished(runs)
    waiting = False
    while left and time.monotonic() < end:
        before = len(left)
        try:
            left = [run for group in trainer.groups(left) for run in worker.try_group(group, end)]
        except _TimeIsUp:
            break
        if left and len(left) == before:
            if not waiting:
                listener.on_wait(len(left))
                waiting = True
            time.sleep(_POLL_SECONDS)
    if left:
        done = finished_results(runs, fingerprints, ledger)
        if count := sum(run.key not in done for run in runs):  # others may have finished the rest
            listener.on_stop(count)


def finished_results(runs: Sequence[Run], fingerprints: Mapping[str, str], ledger: Ledger) -> dict[str, RunResult]:
    """Results of these runs in a ledger, by key, if they were made from the present data.

    A result with another data fingerprint is left out; one without a fingerprint counts.

    Args:
        runs: The runs.
        fingerprints: Fingerprints of the present data sets, by name.
        ledger: The ledger.
    """
    keys = {run.key for run in runs}
    found = latest(of_present_data((each for each in ledger.read() if each.key in keys), fingerprints))
    return {run.key: found[run.key] for run in runs if run.key in found}


def of_present_data(results: Iterable[RunResult], fingerprints: Mapping[str, str]) -> list[RunResult]:
    """The results that were made from the present data, as far as both fingerprints are known.

    Args:
        results: Results, of any data sets.
        fingerprints: Fingerprints of the present data sets, by name.
    """
    return [each for each in results if each.data in (None, fingerprints.get(each.run.get("dataset", ""), each.data))]


@dataclass(frozen=True)
class _Worker:
    datasets: Mapping[str, PackedDataset]
    fingerprints: Mapping[str, str]
    ledger: Ledger
    out: Path
    trainer: Trainer
    listener: Listener

    def without_finished(self, runs: Sequence[Run]) -> list[Run]:
        """The runs without a result; calls the listener with the results of the others."""
        done = finished_results(runs, self.fingerprints, self.ledger)
        for result in done.values():
            self.listener.on_run(result)
        return [run for run in runs if run.key not in done]

    def try_group(self, group: list[Run], end: float) -> list[Run]:
        """Trains the unclaimed runs of a group; returns those that other processes have claimed; after ``end`` all."""
        if time.monotonic() >= end:
            return group
        with claim_all(self.out / "locks", [run.key for run in group]) as keys:
            free = [run for run in group if run.key in keys]
            # Checked under the claim: its previous holder may have finished the run.
            mine = self.without_finished(free) if free else []
            for result in self._train(mine) if mine else ():
                self.ledger.append(result)
                self.listener.on_run(result)
        return [run for run in group if run.key not in keys]

    def _train(self, runs: list[Run]) -> list[RunResult]:
        dataset = self.datasets[runs[0].dataset]
        return self.trainer.train(runs, dataset, self.out / "checkpoints", self.listener.on_epoch)


@dataclass(frozen=True)
class Reproduction:
    """A table with its planned runs and loaded data sets, ready for an estimate or for training.

    Attributes:
        spec: The table.
        settings: Cells to run, and how.
        out: Folder of the ledger, of checkpoints and of tables.
        cells: The cells with their runs.
        runs: The runs of the wanted cells whose data sets are present.
        datasets: Data sets by name.
        missing: Reason why a data set is missing, by name.
    """

    spec: TableSpec
    settings: Settings
    out: Path
    cells: tuple[PlannedCell, ...]
    runs: tuple[Run, ...]
    datasets: dict[str, PackedDataset]
    missing: dict[str, str]

    @classmethod
    def of(
        cls,
        spec: TableSpec,
        settings: Settings,
        data: Path | None = None,
        out: Path = Path("outputs"),
        fetch: bool = True,
    ) -> Reproduction:
        """Plans the runs and loads their data sets.

        Raises for invalid settings, missing data and runs that do not fit their data, before anything is trained.

        Args:
            spec: The table.
            settings: Cells to run, and how.
            data: Folder of data sets.
            out: Folder of the ledger, of checkpoints and of tables.
            fetch: Whether a missing data set may be downloaded; not needed for an estimate.
        """
        cells = plan(spec, settings)
        runs = runs_to_do(cells)
        trainer_for(runs, settings.engine)  # raises before anything is loaded
        datasets, missing = load_datasets((run.dataset for run in runs), data, fetch)
        there = tuple(run for run in runs if run.dataset not in missing)
        for run in there:
            if run.dataset in datasets:  # an estimate needs no data
                check_run(run, datasets[run.dataset])
        return cls(spec, settings, out, tuple(cells), there, datasets, missing)

    @property
    def ledger(self) -> Ledger:
        """The ledger of this folder."""
        return Ledger(self.out / "ledger.jsonl")

    @property
    def trainer(self) -> Trainer:
        """The trainer of the runs."""
        return trainer_for(self.runs, self.settings.engine)

    def estimate(self) -> Estimate:
        """Remaining runs, steps and time."""
        return estimate(self.runs, self.datasets, self._present(), self.trainer.engine)

    def run(self, listener: Listener | None = None, trainer: Trainer | None = None) -> TableResult:
        """Trains the runs that the ledger lacks and writes ``tables/NAME.json``; resumes after a kill or a time limit.

        Args:
            listener: Callbacks.
            trainer: Replaces the trainer of the settings.
        """
        limit = self.settings.seconds
        run_missing(self.runs, self.datasets, self.ledger, self.out, trainer or self.trainer, listener, limit)
        table = self.table()
        write_table(table, self.out)
        return table

    def table(self) -> TableResult:
        """The table with the results that are in the ledger."""
        return make_table(self.spec, self.settings, self.cells, self.results(), self.missing)

    def results(self) -> dict[str, RunResult]:
        """The newest result of every run in the ledger, without those of other data than the present."""
        return latest(self._present())

    def _present(self) -> list[RunResult]:
        return of_present_data(self.ledger.read(), self._fingerprints)

    @cached_property
    def _fingerprints(self) -> dict[str, str]:
        return {name: training.data_identity(dataset) for name, dataset in self.datasets.items()}
