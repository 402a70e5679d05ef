"""A table of the paper, from its specification to numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphprism.datasets import PackedDataset
from graphprism.experiments.ledger import Ledger, claim_all
from graphprism.experiments.plan import (
    Estimate,
    PlannedCell,
    estimate,
    groups_of,
    load_datasets,
    plan,
    runs_to_do,
    trainer_of_many,
)
from graphprism.experiments.spec import AnyRun, ManyTrainer, OnEpoch, Settings, TableSpec
from graphprism.experiments.table import make_table, write_table
from graphprism.results import RunResult, TableResult

# Seconds between two looks at what other processes have claimed.
_PATIENCE = 1.0


@dataclass(frozen=True)
class Listener:
    """Whom to tell how far it has come.

    Attributes:
        on_run: Called with each result, whoever computed it.
        on_epoch: Called with what an engine says of an epoch.
        on_wait: Called with the number of runs that other processes are at, once they are all that is left.
    """

    on_run: Callable[[RunResult], None] = lambda result: None
    on_epoch: OnEpoch = lambda report: None
    on_wait: Callable[[int], None] = lambda count: None


def run_missing(
    spec: TableSpec,
    runs: Sequence[AnyRun],
    datasets: Mapping[str, PackedDataset],
    ledger: Ledger,
    out: Path,
    engine: str = "auto",
    listener: Listener | None = None,
) -> None:
    """Trains each run that has no line in the ledger, and adds its line; returns when all have one.

    Several processes may do so side by side: each run is trained by the one that claims it. A run that was cut short
    goes on from its checkpoint. One that diverges gets a line that says so.

    Args:
        spec: The table, which knows how to train one.
        runs: What the table needs.
        datasets: By the names that the runs use.
        ledger: Where results go.
        out: Folder of ``checkpoints`` and ``locks``.
        engine: ``"eager"``, ``"lockstep"`` or ``"auto"``.
        listener: Whom to tell.
    """
    worker = _Worker(spec, datasets, ledger, out, trainer_of_many(spec, runs, engine), listener or Listener())
    left = worker.without_finished(runs)
    told = False
    while left:
        before = len(left)
        groups = groups_of(left, spec.own) if worker.train_many else [[run] for run in left]
        left = [run for group in groups for run in worker.try_group(group)]
        if left and len(left) == before:
            if not told:
                worker.listener.on_wait(len(left))
                told = True
            time.sleep(_PATIENCE)


@dataclass(frozen=True)
class _Worker:
    spec: TableSpec
    datasets: Mapping[str, PackedDataset]
    ledger: Ledger
    out: Path
    train_many: ManyTrainer | None
    listener: Listener

    def without_finished(self, runs: Sequence[AnyRun]) -> list[AnyRun]:
        """The runs that have no line yet; the listener hears of the others."""
        done = self.ledger.latest()
        for run in runs:
            if run.key in done:
                self.listener.on_run(done[run.key])
        return [run for run in runs if run.key not in done]

    def try_group(self, group: list[AnyRun]) -> list[AnyRun]:
        """Trains those of a group that are free; gives back the ones that other processes are at."""
        with claim_all(self.out / "locks", [run.key for run in group]) as keys:
            # Looked up under the claim: who held it before may have finished the run.
            mine = self.without_finished([run for run in group if run.key in keys])
            for result in self._train(mine):
                self.ledger.append(result)
                self.listener.on_run(result)
        return [run for run in group if run.key not in keys]

    def _train(self, runs: list[AnyRun]) -> Iterator[RunResult]:
        if self.train_many is None or not runs:
            return (self._train_one(run) for run in runs)
        dataset = self.datasets[runs[0].dataset]
        return iter(self.train_many(runs, dataset, folder=self.out / "checkpoints", on_epoch=self.listener.on_epoch))

    def _train_one(self, run: AnyRun) -> RunResult:
        from graphprism.training import Diverged

        try:
            return self.spec.train(run, self.datasets[run.dataset], self.out / "checkpoints", self.listener.on_epoch)
        except Diverged as error:
            return error.result


@dataclass(frozen=True)
class Reproduction:
    """A table with all that is needed to run it: made once, then asked for an estimate or run.

    Attributes:
        spec: The table.
        settings: What was asked for.
        out: Folder of the ledger, of checkpoints and of tables.
        cells: The cells with their runs.
        runs: The runs of the wanted cells whose data sets are there.
        datasets: By name.
        missing: Why a data set is not there, by name.
    """

    spec: TableSpec
    settings: Settings
    out: Path
    cells: tuple[PlannedCell, ...]
    runs: tuple[AnyRun, ...]
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
        """Plans the runs and loads their data sets; wrong settings and missing data show here, before anything runs.

        Args:
            spec: The table.
            settings: What is asked for.
            data: Folder of data sets.
            out: Folder of the ledger, of checkpoints and of tables.
            fetch: Whether a data set that is not there may be downloaded; not needed for an estimate.
        """
        cells = plan(spec, settings)
        runs = runs_to_do(cells)
        trainer_of_many(spec, runs, settings.engine)
        datasets, missing = load_datasets((run.dataset for run in runs), data, fetch)
        there = tuple(run for run in runs if run.dataset not in missing)
        return cls(spec, settings, out, tuple(cells), there, datasets, missing)

    @property
    def ledger(self) -> Ledger:
        """All results in this folder."""
        return Ledger(self.out / "ledger.jsonl")

    def estimate(self) -> Estimate:
        """What is left to do."""
        engine = "eager" if trainer_of_many(self.spec, self.runs, self.settings.engine) is None else "lockstep"
        return estimate(self.runs, self.datasets, self.ledger.read(), engine)

    def run(self, listener: Listener | None = None) -> TableResult:
        """Trains what the ledger lacks and writes the table to ``tables/NAME.json``; may be killed and called again."""
        run_missing(
            self.spec, self.runs, self.datasets, self.ledger, self.out, engine=self.settings.engine, listener=listener
        )
        table = self.table()
        write_table(table, self.out)
        return table

    def table(self) -> TableResult:
        """The table with what the ledger has."""
        return make_table(self.spec, self.settings, self.cells, self.results(), self.missing)

    def results(self) -> dict[str, RunResult]:
        """`Ledger.latest` of this folder."""
        return self.ledger.latest()
