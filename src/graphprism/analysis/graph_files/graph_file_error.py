"""The error of a file that does not hold a graph."""

from __future__ import annotations

from pathlib import Path


class GraphFileError(ValueError):
    """A file cannot be read as a graph; the message is one sentence with the file and, where known, the line."""

    def __init__(self, path: Path, problem: str, line: int | None = None) -> None:
        where = f"{path}, line {line}" if line is not None else str(path)
        super().__init__(f"{where}: {problem}")
        self.line = line
