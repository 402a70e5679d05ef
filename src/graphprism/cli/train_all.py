"""The runs of ``graphprism train``."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from graphprism.cli.epoch_progress import EpochProgress
from graphprism.cli.train_where import Where
from graphprism.datasets import PackedDataset
from graphprism.experiments import Ledger, Listener, TableSpec, run_missing
from graphprism.results import RunResult
from graphprism.training import Diverged, EpochReport, Run, forget_lockstep, train


def train_all(
    runs: Sequence[Run], dataset: PackedDataset, out: Path, where: Where, progress: EpochProgress, fresh: bool = False
) -> list[RunResult]:
    """Trains the runs that the ledger does not have, and gives the results of all.

    Args:
        runs: All on ``dataset``.
        dataset: What they train on.
        out: Folder of the ledger and of the checkpoints.
        where: The devices and the engine.
        progress: Hears of every epoch, and of runs that need none.
        fresh: Whether to forget what was done before.
    """
    ledger = _Fresh(out / "ledger.jsonl") if fresh else Ledger(out / "ledger.jsonl")
    if fresh and where.is_first:
        for run in runs:
            shutil.rmtree(out / "checkpoints" / run.key, ignore_errors=True)
        forget_lockstep(out / "checkpoints", runs)
    if where.processes > 1:
        return [_train_shared(run, dataset, out, where, ledger, progress) for run in runs]
    found: dict[str, RunResult] = {}
    trained: set[str] = set()

    def on_epoch(report: EpochReport) -> None:
        trained.add(report.run.key)
        progress(report)

    def on_run(result: RunResult) -> None:
        found[result.key] = result
        if result.key not in trained:
            progress.say(_was_there(result, ledger))

    def train_one(run: Run, dataset: PackedDataset, folder: Path, on_epoch: Callable[[EpochReport], None]) -> RunResult:
        trained.add(run.key)
        return train(run, dataset, folder=folder, accelerator=where.accelerator, on_epoch=on_epoch)

    listener = Listener(on_run, on_epoch, lambda count: progress.say(f"waiting for {count} runs of other processes"))
    spec = TableSpec("train", "", "", (), train=train_one)
    run_missing(spec, runs, {runs[0].dataset: dataset}, ledger, out, where.engine, listener)
    return [found[run.key] for run in runs]


def _train_shared(
    run: Run, dataset: PackedDataset, out: Path, where: Where, ledger: Ledger, progress: EpochProgress
) -> RunResult:
    """One run on several devices: every process comes here, and all of them have to agree on what is left to do."""
    done = ledger.find(run.key)
    if done is not None:
        progress.say(_was_there(done, ledger))
        return done
    devices: dict[str, Any] = {"accelerator": where.accelerator, "devices": where.devices, "nodes": where.nodes}
    try:
        result = train(run, dataset, folder=out / "checkpoints", on_epoch=progress, **devices)
    except Diverged as error:
        result = error.result
    if where.is_first:
        ledger.append(result)
    return result


def _was_there(result: RunResult, ledger: Ledger) -> str:
    return f"{Run.from_dict(result.run).title}: {result.status} before, read from {ledger.path}; --fresh runs it again"


class _Fresh(Ledger):
    """A ledger that shows only what was added since it was opened."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._before = len(super().read())

    def read(self) -> list[RunResult]:
        """Results since then."""
        return super().read()[self._before :]

    def find(self, key: str) -> RunResult | None:
        """The latest of them."""
        return next((result for result in reversed(self.read()) if result.key == key), None)
