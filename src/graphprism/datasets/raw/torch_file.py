"""Reads tensors from files of torch without executing anything that they name."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

from graphprism._files import check_regular
from graphprism.datasets.raw.pickled_numbers import Storage, named_storage, plain
from graphprism.datasets.raw.plain_pickle import PlainPickle

_MAGIC = 0x1950A86A20F9469CFC6C
_VERSION = 1001
# Errors that zipfile raises on damaged files.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    KeyError,
    NotImplementedError,
    RuntimeError,
    OSError,
    EOFError,
    OverflowError,
)


def read_pickle(path: Path) -> Any:
    """Reads a pickle of numbers, arrays, tensors and sparse matrices.

    Raises:
        ValueError: It is damaged, or holds anything else; nothing in it was executed.
    """
    check_regular(path)
    return parse_pickle(path.read_bytes())


def parse_pickle(content: bytes) -> Any:
    """`read_pickle` of the bytes of a file."""
    try:
        return plain(PlainPickle(load_storage=_StorageReader()).load(io.BytesIO(content)), len(content))
    except ValueError as error:
        raise ValueError(f"the file is damaged or holds more than arrays ({_line(error)})") from error


def read_torch_file(path: Path) -> Any:
    """Reads a file of `torch.save`: tensors in lists, tuples and dictionaries, as arrays.

    Raises:
        ValueError: It is damaged, or holds anything else; nothing in it was executed.
    """
    check_regular(path)
    content = path.read_bytes()
    try:
        if content.startswith(b"PK"):
            return _parse_archive(content)
        return plain(_parse_legacy(content, _header_size(content)), len(content))
    except (ValueError, *_DAMAGE) as error:
        raise ValueError(f"the file is damaged or holds more than tensors ({_line(error)})") from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


class _StorageReader:
    """Reads the storage of a tensor within a pickle, which is itself a complete file of torch."""

    def __init__(self) -> None:
        # Tensors of one pickle have the same header: reading it once, 1,000 molecules of ZINC take 0.15 s, else 0.25 s.
        self._header = b""

    def __call__(self, content: Any) -> Storage:
        if type(content) is not bytes:
            raise ValueError("memory of a tensor must be bytes")
        if not self._header or not content.startswith(self._header):
            self._header = content[: _header_size(content)]
        storage = _parse_legacy(content, len(self._header))
        if type(storage) is not Storage:
            raise ValueError("it holds a tensor without a storage")
        return storage


def _header_size(content: bytes) -> int:
    """Size of the first three pickles: magic number, version, and byte order and word sizes of this machine."""
    stream = io.BytesIO(content)
    magic, version, machine = (plain(PlainPickle().load(stream), len(content)) for _ in range(3))
    if (magic, version) != (_MAGIC, _VERSION):
        raise ValueError("it is no file of torch")
    if not isinstance(machine, dict) or machine.get("little_endian") is not True:
        raise ValueError("its numbers are in the order of another machine")
    return stream.tell()


def _parse_legacy(content: bytes, header_size: int) -> Any:
    """Legacy format: after the header the pickled object, the pickled keys of its storages, then sizes and numbers."""
    stream = io.BytesIO(content)
    stream.seek(header_size)
    storages: dict[str, Storage] = {}

    def persistent(name: Any) -> Storage:
        key, storage = named_storage(name)
        return storages.setdefault(key, storage)

    # Without `load_storage`: nested files could recurse for ever.
    found = PlainPickle(persistent=persistent).load(stream)
    keys = plain(PlainPickle().load(stream), len(content))
    if not isinstance(keys, list) or not all(isinstance(key, str) and key in storages for key in keys):
        raise ValueError("it does not say whose its numbers are")
    view, start = memoryview(content), stream.tell()
    for key in keys:
        storage = storages[key]
        if view[start : start + 8] != struct.pack("<q", storage.size):
            raise ValueError(f"it must hold {storage.size} numbers of a tensor")
        end = start + 8 + storage.size * int(storage.dtype[-1])
        storage.content, start = view[start + 8 : end], end
    return found


def _parse_archive(content: bytes) -> Any:
    """Zip format: ``data.pkl`` and one uncompressed member per storage, all in one folder."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = archive.namelist()
        folder = next((name[: -len("data.pkl")] for name in names if name.endswith("/data.pkl")), None)
        if folder is None:
            raise ValueError("it is no file of torch")
        if f"{folder}byteorder" in names and _member(archive, f"{folder}byteorder") != b"little":
            raise ValueError("its numbers are in the order of another machine")
        storages: dict[str, Storage] = {}
        left = len(content)

        def persistent(name: Any) -> Storage:
            nonlocal left
            key, storage = named_storage(name)
            if key not in storages:
                # Members may overlap, so that a small file unpacks to a large one.
                left -= archive.getinfo(f"{folder}data/{key}").file_size
                if left < 0:
                    raise ValueError("its members are larger than the file")
                storage.content = memoryview(_member(archive, f"{folder}data/{key}"))
                storages[key] = storage
            return storages[key]

        program = _member(archive, f"{folder}data.pkl")
        return plain(PlainPickle(persistent=persistent).load(io.BytesIO(program)), len(program))


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    # torch does not compress; a compressed member may be a bomb.
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{name[:60]} must not be compressed")
    return archive.read(name)
