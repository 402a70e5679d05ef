"""The folder in which a run keeps its checkpoints."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from graphprism.file_lock import try_lock
from graphprism.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint, save_parts
from graphprism.training.run import Run
from graphprism.training.write_whole import not_writable

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
