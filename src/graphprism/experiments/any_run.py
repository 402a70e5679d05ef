"""What an experiment needs to know of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

from graphprism.datasets import PackedDataset
from graphprism.results import RunResult


class AnyRun(Protocol):
    """A frozen dataclass that describes one training: `graphprism.training.Run`, or one with other fields."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def dataset(self) -> str:
        """What `graphprism.datasets.load` takes."""

    @property
    def epochs(self) -> int:
        """Passes over the training set."""

    @property
    def key(self) -> str:
        """Identifies the run."""

    @property
    def title(self) -> str:
        """The run in a few words."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""


# Called after every epoch with what the engine has to say of it.
OnEpoch: TypeAlias = Callable[[Any], None]
# Trains one run, with a folder for its checkpoints.
Trainer: TypeAlias = Callable[[Any, PackedDataset, Path, OnEpoch], RunResult]
# Trains several at once: ``(runs, dataset, folder=..., on_epoch=...)`` gives a result for each, diverged ones too.
ManyTrainer: TypeAlias = Callable[..., list[RunResult]]
