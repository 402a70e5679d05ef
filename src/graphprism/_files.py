"""Files shared by several processes: atomic writes, locks, claims and checksums."""

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
        OSError: It cannot be written; the message names the folder.

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
    """Like `write_whole` for content made in parts: yields a binary file that replaces ``path`` on exit."""
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
    """An `OSError` whose message names the folder and what to do."""
    why = error.strerror or str(error)
    found = OSError(f"{folder}: cannot write {what} there ({why}); make room or name a folder that can be written")
    found.errno = error.errno  # set afterwards: passed to OSError, it would become part of the message
    return found


# Limits of the unpacked size, in bytes and as a multiple of the file's size; the larger one applies. Text and numbers
# compress to a third or a tenth, a gigabyte of zeros to a thousandth.
_UNPACKED_BYTES = 256 << 20
_UNPACKED_TIMES = 100


def check_unpacked(unpacked: int, packed: int) -> None:
    """Raises `ValueError` for a compression bomb: ``packed`` bytes that unpack to more than real data does.

    >>> check_unpacked(1 << 40, 1 << 20)
    Traceback (most recent call last):
    ...
    ValueError: a compressed file of 1,048,576 bytes must unpack to at most 268,435,456, got more
    """
    most = max(_UNPACKED_BYTES, _UNPACKED_TIMES * packed)
    if unpacked > most:
        raise ValueError(f"a compressed file of {packed:,} bytes must unpack to at most {most:,}, got more")


class Gunzip(io.RawIOBase):
    """The unpacked bytes of a gzip file; reading raises `ValueError` beyond the limit of `check_unpacked`.

    Args:
        file: The compressed file, at its beginning.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._packed = os.fstat(file.fileno()).st_size
        file.seek(max(self._packed - 4, 0))
        claimed = int.from_bytes(file.read(4), "little")
        file.seek(0)
        self._file = gzip.GzipFile(fileobj=file)
        # The last four bytes claim the unpacked size; in a truncated file they are arbitrary. A claim beyond the limit
        # is checked by unpacking once, before any parser sees the content.
        if claimed > max(_UNPACKED_BYTES, _UNPACKED_TIMES * self._packed):
            while self.read(1 << 20):
                pass
            self._file.rewind()

    def readable(self) -> bool:
        """Always True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads into a buffer; see `io.RawIOBase`."""
        count = self._file.readinto(buffer)
        check_unpacked(self._file.tell(), self._packed)
        return count

    def tell(self) -> int:
        """Number of unpacked bytes read so far."""
        return self._file.tell()


def check_regular(path: Path) -> None:
    """Raises `ValueError` if ``path`` exists but is no regular file: a read from a pipe can block for ever.

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
    """A new file beside ``path``; it is locked while open, which marks its writer as alive."""
    while True:
        beside = path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.tmp")
        try:
            with beside.open("xb") as file:
                # Between creation and lock another writer may consider it stale and remove it.
                if try_lock(file) and _is_still(beside, file.fileno()):
                    yield file
                    return
        finally:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)


def _remove_stale(path: Path) -> None:
    """Removes temporary files of ``path`` that no living writer has locked."""
    for stale in path.parent.glob(f".{_escaped(path.name)}.*.tmp"):
        # Errors are ignored: the file was removed or renamed meanwhile, belongs to another user, or is locked.
        with contextlib.suppress(OSError), stale.open("r+b") as file:
            if _lock(file, wait=False):
                stale.unlink()


def _escaped(name: str) -> str:
    """Escapes a name for `Path.glob`."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def sync_folder(folder: Path) -> None:
    """Syncs the entries of ``folder`` to disk; a no-op on systems that cannot open a folder."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether ``path`` still names the open file: the previous holder removes it when releasing its claim."""
    try:
        found, held = path.stat(), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)


_fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None
_msvcrt: Any = import_module("msvcrt") if find_spec("msvcrt") else None
# File systems without locks, such as some network file systems.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)
# Locks of Windows are mandatory and cover bytes: lock one beyond the end of any file.
_LOCKED_BYTE = 1 << 40
_POLL_SECONDS = 0.02


def _lock(file: IO[bytes], wait: bool) -> bool:
    """Locks a file; False on a system without locks, where two processes may duplicate work.

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
