"""The ledger: a file with one result per line."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from graphprism._files import claim, lock
from graphprism.results import RunResult, check_type, latest


class Ledger:
    """An append-only file of results: one `RunResult` as JSON per line, readable by ``pandas.read_json(lines=True)``.

    Several processes may append concurrently. A line left incomplete by a killed writer is terminated by the next
    writer and skipped by readers.

    Args:
        path: The file; the first `append` creates it and its folders.
        fresh: Whether to ignore all results that are in the file now.

    >>> Ledger("no/such/file.jsonl").read()
    []
    """

    def __init__(self, path: str | Path = Path("outputs/ledger.jsonl"), *, fresh: bool = False) -> None:
        self.path, self._ignored = Path(path), 0
        if fresh:
            self._ignored = max((number for number, _ in self._lines()), default=0)

    def append(self, result: RunResult) -> None:
        """Appends a line and syncs it to disk; if that fails, the file is left unchanged.

        Raises:
            OSError: The file cannot be written.
        """
        line = result.to_json().encode() + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Append mode, unbuffered: the line is one write, after the lines of other processes.
            with self.path.open("ab+", buffering=0) as file:
                lock(file)
                _append(file, line)
        except OSError as error:
            problem = error.strerror or str(error)
            raise OSError(f"{self.path}: a result could not be added to the ledger: {problem}") from error

    def read(self) -> list[RunResult]:
        """All results, the oldest first; a damaged line is skipped with a warning that names file and line."""
        return [result for number, line in self._lines() if (result := self._parse(number, line)) is not None]

    def latest(self) -> dict[str, RunResult]:
        """The newest result of every run by its key; finished results take precedence over diverged ones."""
        return latest(self.read())

    def find(self, key: str) -> RunResult | None:
        """The newest result of a run as in `latest`, parsing only lines that contain its key; None without a result."""
        marked = ((number, line) for number, line in self._lines() if key.encode() in line)
        return latest(result for number, line in marked if (result := self._parse(number, line))).get(key)

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        if not self.path.is_file():
            return
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if number > self._ignored and line.strip():
                    yield number, line

    def _parse(self, number: int, line: bytes) -> RunResult | None:
        try:
            result = RunResult.from_json(line.decode())
            if is_node_run_0_1(result.run):
                what = f"{self.path}, line {number}: skipped, a run on nodes of version 0.1"
                command = f"python -m graphprism.experiments.migrate {self.path}"
                warnings.warn(f"{what}; {command} brings it up to date", stacklevel=3)
                return None
            _check_run(result.run)
        except ValueError as error:
            problem = f"skipped, it does not hold a whole result ({error})"
            warnings.warn(f"{self.path}, line {number}: {problem}", stacklevel=3)
            return None
        return result


# Types of the fields of `graphprism.training.Run`, repeated here to avoid importing torch; a test compares the two.
_NAMES = (
    *("dataset", "model", "split", "split_layers", "node_encoder", "activation", "head", "head_activation"),
    *("optimizer", "schedule", "precision", "start", "deviation", "options"),
)
_WHOLE = ("layers", "budget", "pe", "walk_steps", "head_layers", "warmup", "epochs", "seed", "fold")
_FLAGS = (
    *("residual", "edge_residual", "normalize", "ffn", "edge_dropout", "edge_walks"),
    *("input_dropout", "undirected", "self_loops", "row_normalise", "learned_split", "encode"),
)
RUN_TYPES: Mapping[str, Any] = {
    **dict.fromkeys(_NAMES, str),
    **dict.fromkeys(_WHOLE, int),
    **dict.fromkeys(_FLAGS, bool),
    **dict.fromkeys(("width", "batch_size", "patience", "neighbors"), int | None),
    **dict.fromkeys(("jk", "pe_encoder", "norm", "weight_init", "remedy", "metric", "class_weights"), str | None),
    **dict.fromkeys(("dropout", "lr", "weight_decay", "clip", "alpha", "decay"), float),
}


def _check_run(run: Mapping[str, Any]) -> None:
    """Checks the types of the fields in `RUN_TYPES`; runs of other versions may lack some or have others."""
    for name, value in run.items():
        check_type(f"run.{name}", value, RUN_TYPES.get(name, Any))


def is_node_run_0_1(run: Mapping[str, Any]) -> bool:
    """Whether a run, as stored in a ledger, is a node run of version 0.1, whose key was computed differently."""
    return "fold" in run and "batch_size" not in run


def _append(file: IO[bytes], line: bytes) -> None:
    size = file.seek(0, os.SEEK_END)
    if size and _last_byte(file, size) != b"\n":
        line = b"\n" + line
    try:
        left = memoryview(line)
        while left:  # one write, unless it was partial
            left = left[file.write(left) :]
        os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            file.truncate(size)
        raise


def _last_byte(file: IO[bytes], size: int) -> bytes:
    file.seek(size - 1)
    return file.read(1)


@contextmanager
def claim_all(folder: Path, keys: Sequence[str]) -> Iterator[list[str]]:
    """Yields those of ``keys`` that this process has claimed."""
    with ExitStack() as claims:
        yield [key for key in keys if claims.enter_context(claim(folder / f"{key}.lock"))]
