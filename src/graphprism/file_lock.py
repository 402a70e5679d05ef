"""Locks on open files that end with the process that holds them, however it ends."""

from __future__ import annotations

import errno
from importlib import import_module
from importlib.util import find_spec
from typing import IO, Any

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
