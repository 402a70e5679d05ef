"""Opening a file that may be compressed, may be missing, and may be damaged."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from graphprism.analysis.graph_files.graph_file_error import GraphFileError

_GZIP = b"\x1f\x8b"


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """Opens ``path`` for reading bytes, through gzip if its first bytes say so."""
    if path.is_dir():
        raise GraphFileError(path, "is a folder, not a file")
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    with path.open("rb") as raw:
        compressed = raw.read(2) == _GZIP
        raw.seek(0)
        yield cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if compressed else raw


def read_block(path: Path, file: BinaryIO, size: int, lines_so_far: int) -> bytes:
    """Up to ``size`` bytes, or the error of a damaged archive with the last line that could be read."""
    try:
        return file.read(size)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise GraphFileError(
            path, f"the compressed file is damaged or cut off ({error})", max(lines_so_far, 1)
        ) from error
