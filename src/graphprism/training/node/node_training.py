"""One run on nodes while it is being trained."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphprism.datasets import PackedDataset
from graphprism.results import RunResult
from graphprism.training.node.build_node_model import build_node_model
from graphprism.training.node.captured_step import CapturedStep
from graphprism.training.node.node_checkpoint import load_node_checkpoint, save_node_checkpoint
from graphprism.training.node.node_data import NodeData
from graphprism.training.node.node_progress import NodeProgress
from graphprism.training.node.node_run import NodeRun
from graphprism.training.node.node_step import NodeStep
from graphprism.training.session import EpochReport


class NodeTraining:
    """A network, how far it has come, and where its checkpoints lie.

    Args:
        run: What to train.
        dataset: What its network is made for.
        data: The graph, on the device to train on.
        folder: Checkpoints lie in ``folder / run.key``; None for none. One that is there is where training goes on.
    """

    def __init__(self, run: NodeRun, dataset: PackedDataset, data: NodeData, folder: Path | None) -> None:
        self.run = run
        self.path = None if folder is None else folder / run.key / "node.pt"
        step = NodeStep(run, build_node_model(run, dataset), data)
        saved = None if self.path is None else load_node_checkpoint(self.path, run, data.x.device)
        if saved is not None:
            step.load(saved)
        self.progress = NodeProgress(run, None if saved is None else saved["history"])
        self.device = data.x.device
        self.step = CapturedStep(step) if data.x.is_cuda and not self.progress.finished else step
        self.parameters = sum(weight.numel() for weight in step.model.parameters())
        self._launched = self.progress.epoch

    def launch(self) -> None:
        """Sets off the next epoch; does not wait for it."""
        self._launched += 1
        self.step(self._launched)

    def read(self) -> list[tuple[float, ...]]:
        """Numbers of the epochs that were set off and not read yet; waits for them."""
        return self.step.read()

    def count(self, rows: Sequence[tuple[float, ...]], seconds: float) -> list[EpochReport]:
        """Counts epochs, which took ``seconds`` each, as far as the run was not over before them; tells of each."""
        reports = []
        for row in rows:
            if not self.progress.finished:
                self.progress.add(row, seconds)
                reports.append(self._report())
        return reports

    def save(self) -> None:
        """Writes a checkpoint, after `count` and before the next `launch`."""
        if self.path is not None:
            save_node_checkpoint(self.path, self.run, {**self.step.state(), "history": self.progress.history})

    def _report(self) -> EpochReport:
        run, progress = self.run, self.progress
        spent = progress.history["seconds"]
        left = min(run.epochs - progress.epoch, run.patience - (progress.epoch - progress.best_epoch))
        told: Any = run  # reports are of runs on graphs and of runs on nodes
        return EpochReport(
            run=told,
            epoch=progress.epoch,
            epochs=run.epochs,
            steps_per_second=1 / max(spent[-1], 1e-9),
            remaining_seconds=left * sum(spent) / len(spent),
            **{name: column[-1] for name, column in progress.history.items()},
        )

    def result(self, runs_at_once: int, origin: dict[str, Any], extra: dict[str, float]) -> RunResult:
        """The line of the ledger."""
        progress, seconds = self.progress, self.progress.history["seconds"]
        return RunResult(
            key=self.run.key,
            run=self.run.to_dict(),
            status="diverged" if progress.diverged else "finished",
            metric="accuracy",
            larger_is_better=True,
            history={name: list(column) for name, column in progress.history.items()},
            best_epoch=progress.best_epoch or None,
            parameters=self.parameters,
            width=self.run.width,
            step_ms=1e3 * statistics.median(seconds),
            seconds=sum(seconds),
            engine="eager" if runs_at_once == 1 else "lockstep",
            **origin,
            extra=extra,
        )
