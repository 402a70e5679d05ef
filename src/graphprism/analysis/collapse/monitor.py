"""Monitor of collapse during training."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from torch.nn import Module

from graphprism._checks import check_function, check_path, check_positive, check_whole
from graphprism._extras import needs_extra
from graphprism.analysis.collapse.collapse import collapse
from graphprism.analysis.collapse.report import CollapseCSV, CollapseReport

_NOT_METRICS = ("layer", "name", "kind", "shape", "state")


class CollapseMonitor:
    """Measures a model every ``every`` training steps, by one extra pass without side effects.

    Call `step` once per training step, with the same data each time if curves are to be compared. A measurement costs
    one forward and backward pass and the metrics.

    Args:
        every: Steps between two measurements; step 0 is measured.
        csv: A file to write, with one line per layer and measured step.
        tensorboard: A folder for event files, which needs the package tensorboard, or any object with
            ``add_scalar(tag, value, step)``.
        measure: Makes the report; for other arguments, a `functools.partial` of `collapse`.
        first_step: Number of the first call of `step`. Above 0 the file of an earlier run is continued: its lines of
            that step and later ones are removed. At 0 it must not exist.

    Attributes:
        history: Pairs of step and report.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from torch_geometric.nn import GCN
        >>> data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> model, monitor = GCN(3, 8, num_layers=2), CollapseMonitor(every=2)
        >>> for _ in range(4):
        ...     _ = monitor.step(model, data)  # after optimizer.step()
        >>> [step for step, report in monitor.history]
        [0, 2]
    """

    def __init__(
        self,
        every: int = 100,
        csv: str | os.PathLike[str] | None = None,
        tensorboard: Any = None,
        measure: Callable[[Module, Any], CollapseReport] = collapse,
        first_step: int = 0,
    ) -> None:
        check_positive("every", every)
        check_whole("first_step", first_step)
        check_function("measure", measure, "a function of a model and a graph")
        if csv is not None:
            check_path("csv", csv)
        self.every = every
        self.csv = csv
        self.measure = measure
        self.history: list[tuple[int, CollapseReport]] = []
        self._writer = _summary_writer(tensorboard)
        self._file: CollapseCSV | None = None
        self.first_step = self._step = first_step

    def step(self, model: Module, data: Any) -> CollapseReport | None:
        """Counts a training step; measures every ``every`` steps, else returns None."""
        step, self._step = self._step, self._step + 1
        if step % self.every:
            return None
        if self.csv is not None and self._file is None:
            self._file = CollapseCSV(self.csv, self.first_step)
        report = self.measure(model, data)
        self.history.append((step, report))
        if self._file is not None:
            self._file.append(step, report)
        self._write_scalars(step, report)
        return report

    def state_dict(self) -> dict[str, int]:
        """State for a checkpoint: the number of the next step."""
        return {"step": self._step}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Resumes at the step of a checkpoint; removes measurements of that step and later, in the file too."""
        self.first_step = self._step = state["step"]
        self._file = None
        self.history = [(step, report) for step, report in self.history if step < self._step]

    def _write_scalars(self, step: int, report: CollapseReport) -> None:
        if self._writer is None:
            return
        for row in report.rows:
            for name, value in asdict(row).items():
                if name not in _NOT_METRICS and value is not None and math.isfinite(value):
                    self._writer.add_scalar(f"{name}/{row.layer:03d} {row.name}", value, step)


def _summary_writer(tensorboard: Any) -> Any:
    if not isinstance(tensorboard, (str, os.PathLike)):
        return tensorboard
    with needs_extra("writing event files"):
        module = importlib.import_module("torch.utils.tensorboard")
    return module.SummaryWriter(os.fspath(tensorboard))


def lightning_callback(
    callback_class: type,
    monitor: CollapseMonitor,
    data: Any = None,
    select: Callable[[Any], Module] | None = None,
) -> Any:
    """A Lightning callback that calls ``monitor.step`` after every training batch, on rank 0 only.

    It saves the step number in the trainer's checkpoints, so that a resumed run continues the same file.

    Args:
        callback_class: ``lightning.pytorch.Callback``, or that of ``pytorch_lightning``: the trainer requires its own
            class, and graphprism imports neither.
        monitor: The monitor.
        data: Input of the model, on the model's device; the training batch if None.
        select: Returns the model of the Lightning module, such as ``lambda module: module.model``; the module itself if
            None.

    .. code-block:: python

        from lightning.pytorch import Callback, Trainer
        trainer = Trainer(callbacks=[lightning_callback(Callback, CollapseMonitor(every=100, csv="collapse.csv"))])
    """
    if not isinstance(callback_class, type):
        raise TypeError(f"`callback_class` must be a class, got {type(callback_class).__name__}")

    class CollapseCallback(callback_class):  # type: ignore[misc]
        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            if trainer.is_global_zero:
                monitor.step(select(pl_module) if select else pl_module, batch if data is None else data)

        def state_dict(self) -> dict[str, int]:
            return monitor.state_dict()

        def load_state_dict(self, state_dict: Mapping[str, int]) -> None:
            monitor.load_state_dict(state_dict)

    return CollapseCallback()
