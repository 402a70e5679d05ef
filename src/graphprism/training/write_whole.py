"""A file that is either the old one or the new one, also after a crash of the machine."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


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
