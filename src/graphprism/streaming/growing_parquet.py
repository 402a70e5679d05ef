"""A crash-safe Parquet writer with checksums: the file grows row group by row group.

The writers of Parquet libraries keep the footer in memory until the end, so a killed process loses everything. Here
pyarrow encodes every row group as a small file, whose body is appended to the data and whose footer goes into a log.
At the end the footers are merged, with shifted offsets. Footers are in Thrift's compact protocol; this module
implements as much of it as is needed to read and write back any structure.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

from graphprism._files import sha256, sync_folder
from graphprism.streaming.arrow import pyarrow

_MAGIC = b"PAR1"
# Metadata keys of the footer: JSON with the checksum of every row group, and the checksum of the footer itself.
ABOUT_KEY, CHECKSUM_KEY = b"graphprism", b"graphprism.sha256"
# Longest footer that is read; that of 10^6 row groups is shorter.
_MOST_FOOTER_BYTES = 1 << 30

# A structure is a dict from field number to (type, value); a list is (type of its items, items).
Struct = dict[int, tuple[int, Any]]
_TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 6, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, _I64)

# Fields of FileMetaData, RowGroup, ColumnChunk and ColumnMetaData in parquet.thrift.
_NUM_ROWS, _ROW_GROUPS, _KEY_VALUES = 3, 4, 5
_COLUMNS, _GROUP_OFFSET, _ORDINAL = 1, 5, 7
_CHUNK_OFFSET, _CHUNK_META = 2, 3
_PAGE_OFFSETS = (9, 10, 11)  # first data page, index page, dictionary page


def decode_struct(content: bytes) -> Struct:
    """Decodes a structure in Thrift's compact protocol.

    >>> decode_struct(encode_struct({1: (5, -7), 30: (8, b"name")}))
    {1: (5, -7), 30: (8, b'name')}
    """
    try:
        found, end = _read_struct(content, 0, 0)
    except (IndexError, struct.error):
        raise ValueError("the footer ends before its last field") from None
    if end != len(content):
        raise ValueError(f"the footer must have {end} bytes, got {len(content)}")
    return found


def encode_struct(fields: Struct) -> bytes:
    """Encodes a structure in Thrift's compact protocol, with its fields in ascending order."""
    out, last = bytearray(), 0
    for number, (kind, value) in sorted(fields.items()):
        step = number - last
        out += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + _varint(_zigzag(number))
        out += b"" if kind in (_TRUE, _FALSE) else _encode(kind, value)
        last = number
    return bytes(out) + b"\0"


def _encode(kind: int, value: Any) -> bytes:
    if kind in (_TRUE, _FALSE):  # an item of a list
        return bytes([_TRUE if value else _FALSE])
    if kind == _BYTE:
        return struct.pack("b", value)
    if kind in _INTEGERS:
        return _varint(_zigzag(value))
    if kind == _DOUBLE:
        return struct.pack("<d", value)
    if kind == _BINARY:
        return _varint(len(value)) + bytes(value)
    if kind == _STRUCT:
        return encode_struct(value)
    item, items = value
    size = len(items)
    head = bytes([size << 4 | item]) if size < 15 else bytes([15 << 4 | item]) + _varint(size)
    return head + b"".join(_encode(item, each) for each in items)


# Structures of Parquet are nested four deep; a damaged footer must not cause a RecursionError.
_DEEPEST = 16


def _read_struct(content: bytes, at: int, depth: int) -> tuple[Struct, int]:
    if depth > _DEEPEST:
        raise ValueError(f"the footer must be nested at most {_DEEPEST} deep, got more")
    found: Struct = {}
    last = 0
    while head := content[at]:
        kind, step, at = head & 15, head >> 4, at + 1
        if not step:
            raw, at = _read_varint(content, at)
            step = _unzigzag(raw) - last
        last += step
        if kind in (_TRUE, _FALSE):
            found[last] = (kind, kind == _TRUE)
            continue
        value, at = _read(content, at, kind, depth)
        found[last] = (kind, value)
    return found, at + 1


def _read(content: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return content[at] == _TRUE, at + 1
    if kind == _BYTE:
        return struct.unpack_from("b", content, at)[0], at + 1
    if kind in _INTEGERS:
        raw, at = _read_varint(content, at)
        return _unzigzag(raw), at
    if kind == _DOUBLE:
        return struct.unpack_from("<d", content, at)[0], at + 8
    if kind == _BINARY:
        size, at = _read_varint(content, at)
        if at + size > len(content):
            raise IndexError
        return content[at : at + size], at + size
    if kind == _STRUCT:
        return _read_struct(content, at, depth + 1)
    if depth > _DEEPEST:
        raise ValueError(f"the footer must be nested at most {_DEEPEST} deep, got more")
    if kind not in (_LIST, _SET):
        raise ValueError(f"the footer must hold types of parquet.thrift, got {kind}")
    head, at = content[at], at + 1
    size, item = head >> 4, head & 15
    if size == 15:
        size, at = _read_varint(content, at)
    items = []
    for _ in range(size):
        value, at = _read(content, at, item, depth + 1)
        items.append(value)
    return (item, items), at


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if shift >= 70:
            raise ValueError("the footer must hold numbers of 64 bits, got a longer one")
        byte, at = content[at], at + 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _zigzag(value: int) -> int:
    return value << 1 ^ value >> 63


def _unzigzag(value: int) -> int:
    return value >> 1 ^ -(value & 1)


def split_footer(content: bytes) -> tuple[bytes, Struct]:
    """Row groups and footer of a whole Parquet file in memory."""
    size = int.from_bytes(content[-8:-4], "little")
    return content[len(_MAGIC) : -8 - size], decode_struct(content[-8 - size : -8])


def _move(group: Struct, by: int, ordinal: int) -> None:
    """Adds ``by`` to all file offsets of a row group, and sets its ordinal."""
    for column in group[_COLUMNS][1][1]:
        # a chunk offset of 0 means "not given", as the format now recommends
        _add(column, _CHUNK_OFFSET, by, keep_zero=True)
        for field in _PAGE_OFFSETS:
            _add(column[_CHUNK_META][1], field, by)
    _add(group, _GROUP_OFFSET, by, keep_zero=True)
    if _ORDINAL in group:
        # 16 bits; the field is optional
        if ordinal < 1 << 15:
            group[_ORDINAL] = (group[_ORDINAL][0], ordinal)
        else:
            del group[_ORDINAL]


def _add(fields: Struct, number: int, by: int, keep_zero: bool = False) -> None:
    if number in fields and not (keep_zero and fields[number][1] == 0):
        kind, value = fields[number]
        fields[number] = (kind, value + by)


class Part(NamedTuple):
    """An appended row group: total rows and bytes up to its end, checksum, footer and a note."""

    rows: int
    end: int
    sha256: str
    footer: str  # base64 of the footer that pyarrow wrote for it alone
    note: Any


class GrowingParquet:
    """Appends tables, one row group each, to a file that becomes a Parquet file by `finish`.

    A new object with the ``folder`` of a killed process resumes after its last complete row group; the data file is
    truncated there.

    Args:
        folder: Folder of data and log until `finish`.
    """

    def __init__(self, folder: Path) -> None:
        self._data_path, self._log_path = folder / "rows", folder / "rows.jsonl"
        self.parts = self._whole_parts()
        self._data: IO[bytes] = self._data_path.open("r+b" if self.parts else "wb")
        self._data.truncate(self.end)
        self._data.seek(self.end)
        if not self.parts:
            self._data.write(_MAGIC)
        self._log: IO[bytes] = self._log_path.open("wb")
        for part in self.parts:  # rewritten without an incomplete last line
            self._log.write(_line(part))

    def __enter__(self) -> GrowingParquet:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self._data.close()
        self._log.close()

    @property
    def rows(self) -> int:
        """Rows so far."""
        return self.parts[-1].rows if self.parts else 0

    @property
    def end(self) -> int:
        """Bytes so far."""
        return self.parts[-1].end if self.parts else 0

    def append(self, table: Any, note: Any = None) -> None:
        """Appends a table as one row group; it is durable on return.

        Args:
            table: A ``pyarrow.Table`` of the same schema as those before.
            note: Any JSON value; available after a resume.
        """
        body, footer = split_footer(_encode_table(table))
        start = max(self.end, len(_MAGIC))
        self._data.write(body)
        self._data.flush()
        os.fsync(self._data.fileno())
        text = base64.b64encode(encode_struct(footer)).decode()
        part = Part(self.rows + table.num_rows, start + len(body), sha256(body), text, note)
        self._log.write(_line(part))
        self._log.flush()
        os.fsync(self._log.fileno())
        self.parts.append(part)

    def finish(self, path: Path, about: dict[str, Any]) -> None:
        """Writes the footer and moves the file to ``path``, atomically; needs at least one appended part."""
        footers = [decode_struct(base64.b64decode(part.footer)) for part in self.parts]
        ends = [part.end for part in self.parts]
        groups: list[Struct] = []
        for start, footer in zip([len(_MAGIC), *ends[:-1]], footers, strict=True):
            for group in footer[_ROW_GROUPS][1][1]:
                _move(group, start - len(_MAGIC), len(groups))
                groups.append(group)
        about = {**about, "ends": ends, "row_groups": [part.sha256 for part in self.parts]}
        whole = {**footers[0], _NUM_ROWS: (_I64, self.rows), _ROW_GROUPS: (_LIST, (_STRUCT, groups))}
        _set_key(whole, ABOUT_KEY, json.dumps(about).encode())
        _set_key(whole, CHECKSUM_KEY, _footer_checksum(whole).encode())
        content = encode_struct(whole)
        self._data.write(content + len(content).to_bytes(4, "little") + _MAGIC)
        self._data.flush()
        os.fsync(self._data.fileno())
        self._data.close()
        self._data_path.replace(path)
        sync_folder(path.parent)

    def _whole_parts(self) -> list[Part]:
        """The leading parts of the log whose bytes are complete in the data file."""
        if not (self._log_path.is_file() and self._data_path.is_file()):
            return []
        found: list[Part] = []
        with self._data_path.open("rb") as data:
            if data.read(len(_MAGIC)) != _MAGIC:
                return []
            for line in self._log_path.read_bytes().splitlines(keepends=True):
                part = _part(line)
                body = b"" if part is None else data.read(part.end - data.tell())
                if part is None or sha256(body) != part.sha256:
                    break
                found.append(part)
        return found


def _line(part: Part) -> bytes:
    return json.dumps(part).encode() + b"\n"


def _part(line: bytes) -> Part | None:
    try:
        return Part(*json.loads(line)) if line.endswith(b"\n") else None
    except (TypeError, ValueError):
        return None


def _encode_table(table: Any) -> bytes:
    pa = pyarrow()
    # Delta encoding takes a third of the bytes of plain ids, and writes faster than snappy.
    whole = [field.name for field in table.schema if pa.types.is_integer(field.type) and field.type.bit_width >= 32]
    others = [field.name for field in table.schema if field.name not in whole]
    sink = pa.BufferOutputStream()
    encoding = dict.fromkeys(whole, "DELTA_BINARY_PACKED")
    pa.parquet.write_table(
        table, sink, row_group_size=max(table.num_rows, 1), use_dictionary=others, column_encoding=encoding
    )
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _set_key(footer: Struct, key: bytes, value: bytes) -> None:
    pairs = footer.get(_KEY_VALUES, (_LIST, (_STRUCT, [])))[1][1]
    kept = [pair for pair in pairs if pair[1][1] != key]
    footer[_KEY_VALUES] = (_LIST, (_STRUCT, [*kept, {1: (_BINARY, key), 2: (_BINARY, value)}]))


def _footer_checksum(footer: Struct) -> str:
    """SHA-256 of the footer without its own checksum."""
    pairs = footer[_KEY_VALUES][1][1]
    kept = [pair for pair in pairs if pair[1][1] != CHECKSUM_KEY]
    return hashlib.sha256(encode_struct({**footer, _KEY_VALUES: (_LIST, (_STRUCT, kept))})).hexdigest()


def read_about(path: Path) -> dict[str, Any]:
    """The ``about`` of `GrowingParquet.finish`, after verifying the checksum of the footer.

    Raises:
        ValueError: The file is truncated, damaged or was not written by `GrowingParquet`.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 8, 0))
        tail = file.read(8)
        length = int.from_bytes(tail[:4], "little")
        if size < 12 or tail[4:] != _MAGIC or not 0 < length <= min(size - 12, _MOST_FOOTER_BYTES):
            raise ValueError("must be a complete Parquet file, got one that is truncated or of another format")
        file.seek(size - 8 - length)
        footer = decode_struct(file.read(length))
    try:
        pairs = footer[_KEY_VALUES][1][1] if _KEY_VALUES in footer else []
        keys = {pair[1][1]: pair[2][1] for pair in pairs if 2 in pair}
        if ABOUT_KEY not in keys or CHECKSUM_KEY not in keys:
            raise ValueError("must be a file that `graphprism split` wrote, got one without its checksums")
        if keys[CHECKSUM_KEY].decode() != _footer_checksum(footer):
            raise ValueError("the checksum of the footer does not match")
    except (AttributeError, IndexError, KeyError, TypeError, struct.error):  # a field of the wrong type
        raise ValueError("the footer is damaged") from None
    about: dict[str, Any] = json.loads(keys[ABOUT_KEY])
    return about


def verified_groups(path: Path, about: dict[str, Any]) -> Iterator[int]:
    """Yields the number of each row group after verifying its checksum."""
    with path.open("rb") as file:
        start = len(_MAGIC)
        for number, (end, checksum) in enumerate(zip(about["ends"], about["row_groups"], strict=True)):
            file.seek(start)
            if sha256(file.read(end - start)) != checksum:
                raise ValueError(f"the checksum of row group {number} does not match")
            yield number
            start = end
