"""One run on the nodes of one graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from graphprism.datasets import PackedDataset
from graphprism.results import RunResult
from graphprism.training.node.node_run import NodeRun
from graphprism.training.node.train_nodes import train_nodes
from graphprism.training.session import Diverged, EpochReport


def train_node(
    run: NodeRun,
    dataset: PackedDataset,
    *,
    folder: Path | None = None,
    accelerator: str = "auto",
    on_epoch: Callable[[EpochReport], None] | None = None,
    checkpoint_seconds: float = 10.0,
) -> RunResult:
    """Trains one run on all nodes at once, until its validation accuracy has stopped getting better.

    See `train_nodes`, which takes several, for the arguments and the result.

    Raises:
        Diverged: The loss was not a finite number.
    """
    (result,) = train_nodes(
        [run],
        dataset,
        folder=folder,
        accelerator=accelerator,
        on_epoch=on_epoch,
        checkpoint_seconds=checkpoint_seconds,
    )
    if result.status == "diverged":
        told: Any = run  # what diverges is a run on graphs or one on nodes
        raise Diverged(told, epoch=len(result.history["val"]), step=1, checkpoint=None, result=result)
    return result
