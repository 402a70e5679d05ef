"""A file that is either the old one or the new one, never half of it."""

from __future__ import annotations

import contextlib
import errno
import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any


def write_atomically(path: Path, content: bytes) -> None:
    """Writes beside ``path`` first and then takes its place; folders are made as needed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder, "new", "a.txt"), b"all")
    ...     [file.name for file in Path(folder, "new").iterdir()]
    ['a.txt']
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Writes beside ``path``, waits until it is on the disk, and takes the place of what was there.

    Whoever is killed meanwhile leaves the old file, and the half-written one for the next call to write over.

    Raises:
        OSError: It cannot be written; one sentence names the folder.
    """
    beside = path.with_name(f".{path.name}.tmp")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise not_writable(path.parent, error) from error


def not_writable(folder: Path, error: OSError) -> OSError:
    """The error in one sentence that says which folder and what to do."""
    why = error.strerror or str(error)
    found = OSError(f"{folder}: cannot write checkpoints there ({why}); make room or name a folder that can be written")
    found.errno = error.errno  # set afterwards: given to OSError, it would become part of the sentence
    return found


def _sync_folder(folder: Path) -> None:
    # the new name is on the disk only after this; not every system lets a folder be opened
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# A system without it has no such lock: two processes at once may then do the same work twice.
_fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None


# A file system without locks, such as some on a network, is no reason to stop either.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)


def lock(file: IO[bytes]) -> None:
    """Waits until this process alone holds the lock of ``file``; closing the file gives it back."""
    _flock(file, wait=True)


def try_lock(file: IO[bytes]) -> bool:
    """Takes the lock if no other process holds it, and says whether it did."""
    try:
        _flock(file, wait=False)
    except BlockingIOError:
        return False
    return True


def _flock(file: IO[bytes], wait: bool) -> None:
    if _fcntl is None:
        return
    try:
        _fcntl.flock(file, _fcntl.LOCK_EX if wait else _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
