"""What is kept of a run after an epoch, in a file."""

from __future__ import annotations

import io
import pickle
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphprism._files import not_writable, try_lock, write_whole
from graphprism.training.provenance import digest
from graphprism.training.run import Run

_FORMAT = "graphprism checkpoint 1"
# What torch was seen to raise on files that were cut or changed.
_DAMAGE = (RuntimeError, ValueError, EOFError, KeyError, TypeError, AttributeError, IndexError, pickle.UnpicklingError)


class CheckpointError(ValueError):
    """A checkpoint that is damaged, or of another run, data set or version."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}; remove {path.parent} to start this run anew")
        self.path, self.problem = path, problem

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.problem)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A run after an epoch: all that decides how it goes on.

    The order of data and dropout follow from seed and epoch, so no random state is kept.

    Attributes:
        model: Weights.
        optimizer: State of the optimiser for each weight.
        history: Columns with one number per epoch.
        step_ms: Time of a step in each epoch.
        best_epoch: Epoch of the best validation score.
        best: Weights of that epoch.
    """

    model: dict[str, Tensor]
    optimizer: dict[int, dict[str, Any]]
    history: dict[str, list[float]]
    step_ms: list[float]
    best_epoch: int | None
    best: dict[str, Tensor] | None

    @property
    def epoch(self) -> int:
        """Number of epochs that are finished."""
        return len(self.step_ms)


def save_parts(path: Path, run: Run, data: str, parts: dict[str, Any]) -> None:
    """Writes ``parts`` with the run, the identity of its data and a checksum; whole or not at all."""
    content = io.BytesIO()
    torch.save(
        {"format": _FORMAT, "run": run.to_dict(), "data": data, "sha256": digest(parts), "parts": parts}, content
    )
    write_whole(path, content.getvalue())


def load_parts(path: Path, run: Run, data: str) -> dict[str, Any]:
    """Reads `save_parts` back, without executing anything in the file.

    Raises:
        CheckpointError: It is damaged or belongs to something else.
    """
    content = io.BytesIO(path.read_bytes())
    try:
        file = torch.load(content, map_location="cpu", weights_only=True)
        found = {key: file[key] for key in ("format", "run", "data", "sha256", "parts")}
        intact = found["format"] != _FORMAT or digest(found["parts"]) == found["sha256"]
    except _DAMAGE:
        intact = False
    if not intact:
        raise CheckpointError(path, "the file is damaged or not a checkpoint")
    if found["format"] != _FORMAT:
        raise CheckpointError(path, f"must be of the format {_FORMAT!r}, got {found['format']!r}")
    if found["run"] != run.to_dict():
        raise CheckpointError(path, f"belongs to another run than {run.title}")
    if found["data"] != data:
        raise CheckpointError(path, f"belongs to other data than this {run.dataset}")
    parts: dict[str, Any] = found["parts"]
    return parts


def save_checkpoint(path: Path, run: Run, data: str, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint, whole or not at all."""
    save_parts(path, run, data, {each.name: getattr(checkpoint, each.name) for each in fields(checkpoint)})


def load_checkpoint(path: Path, run: Run, data: str) -> Checkpoint | None:
    """Reads a checkpoint; None where there is no file."""
    return Checkpoint(**load_parts(path, run, data)) if path.exists() else None


# A checkpoint is written so that it takes at most a fiftieth of the time, but after ten seconds at the latest.
_SHARE = 50
_LONGEST = 10.0


class RunFolder:
    """``folder / run.key`` with ``checkpoint.pt`` and ``best.pt``, used by one process at a time.

    Args:
        folder: Where all runs keep theirs.
        run: The run.
        data: Identity of its data set.

    Raises:
        OSError: It cannot be written.
        ValueError: Another process is training the same run there.
    """

    def __init__(self, folder: Path, run: Run, data: str) -> None:
        self.run, self.data, self.path = run, data, folder / run.key
        self.checkpoint = self.path / "checkpoint.pt"
        self._lock = self._take_lock()
        self._pending: Checkpoint | None = None
        self._best_written: int | None = None
        self._due = 0.0

    def load(self) -> Checkpoint | None:
        """The checkpoint that is there; a best.pt that is behind it is written anew."""
        found = load_checkpoint(self.checkpoint, self.run, self.data)
        if found is not None:
            self._write_best(found)
        return found

    def keep(self, checkpoint: Checkpoint, now: bool) -> None:
        """Takes a checkpoint, which it writes ``now`` or when it is time to."""
        self._pending = checkpoint
        if now or time.monotonic() >= self._due:
            self.flush()

    def flush(self) -> None:
        """Writes what was kept and is not written yet."""
        if self._pending is None:
            return
        begin = time.monotonic()
        # the checkpoint holds the best weights as well: killed between the two, best.pt is mended by `load`
        save_checkpoint(self.checkpoint, self.run, self.data, self._pending)
        self._write_best(self._pending)
        self._pending = None
        end = time.monotonic()
        self._due = end + min(_LONGEST, _SHARE * (end - begin))

    def close(self) -> None:
        """Lets others use the folder."""
        self._lock.close()

    def _write_best(self, checkpoint: Checkpoint) -> None:
        if checkpoint.best_epoch in (None, self._best_written):
            return
        parts = {"epoch": checkpoint.best_epoch, "model": checkpoint.best}
        save_parts(self.path / "best.pt", self.run, self.data, parts)
        self._best_written = checkpoint.best_epoch

    def _take_lock(self) -> Any:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            file = (self.path / "lock").open("ab")
        except OSError as error:
            raise not_writable(self.path, error) from error
        if not try_lock(file):
            file.close()
            raise ValueError(f"{self.path}: another process is training this run there; wait for it")
        return file
