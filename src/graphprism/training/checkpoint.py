"""Checkpoints of runs, written atomically."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphprism._files import not_writable, try_lock, write_whole
from graphprism.training.engine import RunState
from graphprism.training.provenance import digest
from graphprism.training.run import Run, run_key

_FORMAT = "graphprism checkpoint 2"
# Version 0.1 stored the best weights in the same way, but other data to resume a run.
_FORMATS_OF_WEIGHTS = (_FORMAT, "graphprism checkpoint 1")
# Errors of `torch.load` on truncated or modified files.
_DAMAGE = (RuntimeError, ValueError, EOFError, KeyError, TypeError, AttributeError, IndexError, pickle.UnpicklingError)


class CheckpointError(ValueError):
    """A checkpoint that is damaged, or of another run, data set or version."""

    def __init__(self, path: Path, problem: str, hint: str | None = None) -> None:
        hint = f"remove {path.parent}, or train with --fresh, to start this run anew" if hint is None else hint
        super().__init__(f"{path}: {problem}; {hint}")
        self.path, self.problem, self.hint = path, problem, hint

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.problem, self.hint)


# Of `read_best`: the path is the caller's, and may name any file, so that nothing is to be removed.
TO_LOAD = (
    "`graphprism.load` takes a best.pt that `train` wrote; a state_dict is for `load_state_dict` of the model it is of"
)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A run after an epoch: its state and its numbers.

    Attributes:
        state: Result of `graphprism.training.engine.Engine.state`.
        history: Columns with one number per epoch.
        step_ms: Time of a step in each epoch.
        best_epoch: Epoch of the best validation score.
        steps: How its last steps were taken, such as ``"captured steps on cuda"``; empty where the file does not say.
    """

    state: RunState
    history: dict[str, list[float]]
    step_ms: list[float]
    best_epoch: int | None
    steps: str = ""

    @property
    def epoch(self) -> int:
        """Number of epochs that are finished."""
        return len(self.step_ms)


def save_parts(path: Path, run: Run, data: str, parts: dict[str, Any]) -> None:
    """Writes ``parts`` with the run, the fingerprint of its data and a checksum, atomically."""
    content = io.BytesIO()
    torch.save(
        {"format": _FORMAT, "run": run.to_dict(), "data": data, "sha256": digest(parts), "parts": parts}, content
    )
    write_whole(path, content.getvalue())


def load_weights(path: Path, run: Run, data: str) -> dict[str, Tensor]:
    """The weights in a ``best.pt``, also in one of version 0.1; raises as `load_parts` does."""
    weights: dict[str, Tensor] = load_parts(path, run, data, _FORMATS_OF_WEIGHTS)["model"]
    return weights


def load_parts(path: Path, run: Run, data: str, formats: Sequence[str] = (_FORMAT,)) -> dict[str, Any]:
    """Reads `save_parts` back, without executing anything in the file.

    Raises:
        CheckpointError: It is damaged or belongs to something else.
    """
    found = _read_file(path, formats)
    if found["key"] != run.key:
        raise CheckpointError(path, f"belongs to another run than {run.title}")
    if found["data"] != data:
        raise CheckpointError(path, f"belongs to other data than this {run.dataset}")
    parts: dict[str, Any] = found["parts"]
    return parts


def read_best(path: Path) -> tuple[Run, dict[str, Any], dict[str, Tensor]]:
    """The run of a ``best.pt``, the form of its data and its weights, without executing anything in the file.

    Raises:
        CheckpointError: It is damaged, or was written before checkpoints carried the form of their data.
    """
    found = _read_file(path, (_FORMAT,), TO_LOAD)
    parts = found["parts"]
    form, weights = parts.get("form"), parts.get("model")
    if not isinstance(form, dict) or not isinstance(weights, dict):
        raise CheckpointError(path, "must be a best.pt that carries the form of its data, got one without", TO_LOAD)
    try:
        return Run.from_dict(found["run"]), form, weights
    except (TypeError, ValueError) as error:
        raise CheckpointError(path, f"must hold a run ({error})", TO_LOAD) from error


def _read_file(path: Path, formats: Sequence[str], hint: str | None = None) -> dict[str, Any]:
    if not path.is_file():
        raise CheckpointError(path, "must be a file, got a pipe, a device or a folder", hint)
    content = io.BytesIO(path.read_bytes())
    try:
        file = torch.load(content, map_location="cpu", weights_only=True)
        found = {key: file[key] for key in ("format", "run", "data", "sha256", "parts")}
        intact = found["format"] not in formats or digest(found["parts"]) == found["sha256"]
        # by key, not by fields: a run stored before a field existed equals the run with the origin of that field
        found["key"] = run_key(found["run"])
    except _DAMAGE:
        intact = False
    if not intact:
        raise CheckpointError(path, "the file is damaged or not a checkpoint", hint)
    if found["format"] not in formats:
        raise CheckpointError(path, f"must be of the format {_FORMAT!r}, got {found['format']!r}", hint)
    return found


class RunFolder:
    """``folder / run.key`` with ``checkpoint.pt`` and ``best.pt``, used by one process at a time.

    Args:
        folder: Folder of the checkpoints of all runs.
        run: The run.
        data: Fingerprint of its data set.
        form: Result of `graphprism.training.data_form.form_of`, stored so that ``best.pt`` suffices to predict.

    Raises:
        OSError: It cannot be written.
        ValueError: Another process is training the same run there.
    """

    def __init__(self, folder: Path, run: Run, data: str, form: dict[str, Any] | None = None) -> None:
        self.run, self.data, self.path, self._form = run, data, folder / run.key, form
        self.checkpoint = self.path / "checkpoint.pt"
        self._lock = self._take_lock()
        self._best_written: int | None = None

    def load(self) -> Checkpoint | None:
        """The stored checkpoint, None if there is none; rewrites a best.pt that is older."""
        if not self.checkpoint.exists():
            return None
        found = Checkpoint(**load_parts(self.checkpoint, self.run, self.data))
        self.write_best(found.best_epoch, found.state["best"])
        return found

    def save(self, checkpoint: Checkpoint) -> None:
        """Writes a checkpoint."""
        # it contains the best weights too: after a crash between the two writes `load` rewrites best.pt
        parts = {each.name: getattr(checkpoint, each.name) for each in fields(checkpoint)}
        save_parts(self.checkpoint, self.run, self.data, parts)
        self.write_best(checkpoint.best_epoch, checkpoint.state["best"])

    def close(self) -> None:
        """Releases the lock of the folder."""
        self._lock.close()

    def write_best(self, epoch: int | None, model: dict[str, Tensor] | None) -> None:
        """Writes the weights of the best epoch, unless they are already stored."""
        if epoch in (None, self._best_written):
            return
        parts: dict[str, Any] = {"epoch": epoch, "model": model}
        if self._form is not None:
            parts["form"] = self._form
        save_parts(self.path / "best.pt", self.run, self.data, parts)
        self._best_written = epoch

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
