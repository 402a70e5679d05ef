"""The right to do one piece of work, held by one process at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from graphprism.file_lock import try_lock


@contextmanager
def claim(path: Path) -> Iterator[bool]:
    """Gives whether this process has the file ``path`` for itself now; others are told that it is taken.

    The claim is a lock, not the file: a process that is killed gives it back at once and leaves only the file behind.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "a.lock")
    >>> with claim(path) as first, claim(path) as second:
    ...     first, second
    (True, False)
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        mine = try_lock(file) and _is_still(path, file.fileno())
        try:
            yield mine
        finally:
            if mine:
                path.unlink(missing_ok=True)


@contextmanager
def claim_all(folder: Path, keys: Sequence[str]) -> Iterator[list[str]]:
    """Gives those of ``keys`` that this process has for itself now."""
    with ExitStack() as claims:
        yield [key for key in keys if claims.enter_context(claim(folder / f"{key}.lock"))]


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the name still means the open file: who gave it back between opening and locking has removed it."""
    try:
        found, held = path.stat(), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)
