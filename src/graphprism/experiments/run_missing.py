"""Trains what the ledger does not have yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphprism.datasets import PackedDataset
from graphprism.experiments.any_run import AnyRun, ManyTrainer, OnEpoch
from graphprism.experiments.claim import claim_all
from graphprism.experiments.engine_for import groups_of, trainer_of_many
from graphprism.experiments.ledger import Ledger
from graphprism.experiments.table_spec import TableSpec
from graphprism.results import RunResult

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
        done = {result.key: result for result in self.ledger.read()}
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
