"""A `CollapseMonitor` in a Lightning trainer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch.nn import Module

from graphprism.analysis.collapse.collapse_monitor import CollapseMonitor


def lightning_callback(
    callback_class: type,
    monitor: CollapseMonitor,
    data: Any = None,
    select: Callable[[Any], Module] | None = None,
) -> Any:
    """A Lightning callback that calls ``monitor.step`` after every training batch, on the first process only.

    It saves the number of the step with the trainer's checkpoints, so that a resumed run goes on in the same file.

    Args:
        callback_class: ``lightning.pytorch.Callback``, or that of ``pytorch_lightning``: the trainer asks for its own
            class, and this part of the package knows neither.
        monitor: What measures and writes.
        data: What to run the model on, on the model's device; the training batch if None.
        select: Picks the model out of the Lightning module, such as ``lambda module: module.model``; the module
            itself if None.

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
