"""Files shared by several processes: atomic writes, locks, claims and checksums, one of each."""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import io
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any


def write_whole(path: Path, content: bytes | str, what: str = "checkpoints") -> None:
    """Replaces the file ``path`` atomically and durably; missing folders are created.

    The content is written to a temporary file ``.NAME.*.tmp`` beside it, synced and renamed. A writer that is killed
    leaves the old file; its temporary file is removed by the next writer of the same path.

    Args:
        path: The file.
        content: Text is encoded as UTF-8.
        what: What is written, for the message of an error.

    Raises:
        OSError: It cannot be written; one sentence names the folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder, "new", "a.txt"), "all")
    ...     [file.name for file in Path(folder, "new").iterdir()]
    ['a.txt']
    """
    with whole_file(path, what) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def whole_file(path: Path, what: str = "checkpoints") -> Iterator[IO[bytes]]:
    """A binary file to write to that becomes ``path`` at the end, as `write_whole` does; for content made in parts."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(path)
        with _temporary(path) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if os.name == "nt":  # an open file cannot be renamed there
                file.close()
            Path(file.name).replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise not_writable(path.parent, error, what) from error


def not_writable(folder: Path, error: OSError, what: str = "checkpoints") -> OSError:
    """The error in one sentence that names the folder and what to do."""
    why = error.strerror or str(error)
    found = OSError(f"{folder}: cannot write {what} there ({why}); make room or name a folder that can be written")
    found.errno = error.errno  # set afterwards: given to OSError, it would become part of the sentence
    return found


# What a file may unpack to, whatever its size, and how many times its size if that is more: text and numbers shrink to
# a third or a tenth, a gigabyte of zeros to a thousandth.
_UNPACKED_BYTES = 256 << 20
_UNPACKED_TIMES = 100


def check_unpacked(unpacked: int, packed: int) -> None:
    """Raises `ValueError` where a compressed file of ``packed`` bytes unpacks to more than any data does.

    >>> check_unpacked(1 << 40, 1 << 20)
    Traceback (most recent call last):
    ...
    ValueError: a compressed file of 1,048,576 bytes must unpack to at most 268,435,456, got more
    """
    most = max(_UNPACKED_BYTES, _UNPACKED_TIMES * packed)
    if unpacked > most:
        raise ValueError(f"a compressed file of {packed:,} bytes must unpack to at most {most:,}, got more")


class Gunzip(io.RawIOBase):
    """The unpacked bytes of a gzip file; reading raises `ValueError` where there are more than `check_unpacked` allows.

    Args:
        file: The compressed file, at its beginning.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._packed = os.fstat(file.fileno()).st_size
        file.seek(max(self._packed - 4, 0))
        claimed = int.from_bytes(file.read(4), "little")
        file.seek(0)
        self._file = gzip.GzipFile(fileobj=file)
        # A file that claims too much, which one that was cut off does by chance, is unpacked before anyone parses it.
        if claimed > max(_UNPACKED_BYTES, _UNPACKED_TIMES * self._packed):
            while self.read(1 << 20):
                pass
            self._file.rewind()

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads into a buffer; see `io.RawIOBase`."""
        count = self._file.readinto(buffer)
        check_unpacked(self._file.tell(), self._packed)
        return count

    def tell(self) -> int:
        """Bytes that were read, unpacked."""
        return self._file.tell()


def check_regular(path: Path) -> None:
    """Raises `ValueError` where ``path`` is there and is no file: reading a pipe may wait for ever, a device never end.

    >>> check_regular(Path("/dev/null"))
    Traceback (most recent call last):
    ...
    ValueError: must be a file, got a pipe, a device or a folder
    """
    if path.exists() and not path.is_file():
        raise ValueError("must be a file, got a pipe, a device or a folder")


def sha256(content: bytes | str) -> str:
    """SHA-256 checksum as 64 hexadecimal digits; text is encoded as UTF-8.

    >>> sha256("graph")[:16]
    'eef93e1d14482804'
    """
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def lock(file: IO[bytes]) -> None:
    """Waits until this process alone holds the lock of ``file``; closing the file releases it."""
    _lock(file, wait=True)


def try_lock(file: IO[bytes]) -> bool:
    """Takes the lock unless another process holds it; returns whether it did."""
    try:
        _lock(file, wait=False)
    except BlockingIOError:
        return False
    return True


@contextmanager
def claim(path: Path) -> Iterator[bool]:
    """Yields whether this process holds the claim named by the lock file ``path``.

    The claim is the lock, not the file: a killed process releases it at once and leaves only the file behind.

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
                with contextlib.suppress(PermissionError):  # Windows: an open file cannot be removed
                    path.unlink(missing_ok=True)


@contextmanager
def _temporary(path: Path) -> Iterator[IO[bytes]]:
    """A new file beside ``path``, locked while it is open so that others know its writer to be alive."""
    while True:
        beside = path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.tmp")
        try:
            with beside.open("xb") as file:
                # Another writer may take it for stale and remove it between creation and lock.
                if try_lock(file) and _is_still(beside, file.fileno()):
                    yield file
                    return
        finally:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)


def _remove_stale(path: Path) -> None:
    """Removes temporary files of ``path`` that no living writer has locked."""
    for stale in path.parent.glob(f".{_escaped(path.name)}.*.tmp"):
        # Removed or renamed meanwhile, not ours to remove, or locked: all of them are left alone.
        with contextlib.suppress(OSError), stale.open("r+b") as file:
            if _lock(file, wait=False):
                stale.unlink()


def _escaped(name: str) -> str:
    """A name as a pattern of `Path.glob` that matches it alone."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def sync_folder(folder: Path) -> None:
    """Makes a new name in ``folder`` durable; a no-op on systems that do not let a folder be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether ``path`` still names the open file: the holder before removes it when it releases its claim."""
    try:
        found, held = path.stat(), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)


_fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None
_msvcrt: Any = import_module("msvcrt") if find_spec("msvcrt") else None
# File systems without locks, such as some on a network.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)
# Windows locks bytes against reading and writing: one that no file reaches.
_LOCKED_BYTE = 1 << 40
_POLL_SECONDS = 0.02


def _lock(file: IO[bytes], wait: bool) -> bool:
    """Locks a file; False where the system has no locks, so that two processes may do the same work twice.

    Raises:
        BlockingIOError: Another process holds it, and ``wait`` is False.
    """
    if _fcntl is not None:
        try:
            _fcntl.flock(file, _fcntl.LOCK_EX if wait else _fcntl.LOCK_EX | _fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return False
        return True
    if _msvcrt is None:
        return False
    while not _lock_byte(file):
        if not wait:
            raise BlockingIOError(errno.EWOULDBLOCK, "another process holds the lock")
        time.sleep(_POLL_SECONDS)
    return True


def _lock_byte(file: IO[bytes]) -> bool:
    before = file.tell()
    file.seek(_LOCKED_BYTE)
    try:
        _msvcrt.locking(file.fileno(), _msvcrt.LK_NBLCK, 1)
    except OSError:
        return False
    finally:
        file.seek(before)
    return True
