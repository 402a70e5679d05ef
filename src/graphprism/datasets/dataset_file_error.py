"""The error of a file that does not hold a data set."""

from __future__ import annotations

from pathlib import Path


class DatasetFileError(ValueError):
    """A packed file cannot be used; the message is one sentence with the file, the problem and what to do."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}; replace the file by a whole copy, or delete it and pack it again")
        self.path = path
