"""A table as a file."""

from __future__ import annotations

from pathlib import Path

from graphprism.analysis.figures import write_atomically
from graphprism.results import TableResult


def write_table(table: TableResult, out: Path) -> Path:
    """Writes ``tables/NAME.json`` below ``out``, whole or not at all, and gives its path.

    Raises:
        OSError: It cannot be written, in one sentence.
    """
    path = out / "tables" / f"{table.name}.json"
    try:
        write_atomically(path, table.to_json().encode())
    except OSError as error:
        raise OSError(f"{path}: the table could not be written: {error.strerror or error}") from error
    return path
