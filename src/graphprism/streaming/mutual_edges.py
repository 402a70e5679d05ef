"""Which edges have an edge back, out of core: pairs of nodes in buckets on disk, each of which fits into memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphprism._files import write_whole

# Edges of a bucket, on average: its keys take 32 MB and are sorted in some 100 MB.
_EDGES_PER_BUCKET = 1 << 22
# Open files; more edges than this many buckets hold make buckets larger.
_MOST_BUCKETS = 512
# A key has 31 bits for each end and one for the direction.
MOST_NODES = 1 << 31

Keys = npt.NDArray[np.int64]


class MutualEdges:
    """Writes a key for every edge into the bucket of its pair of nodes, finds mutual pairs, gives the answers back.

    An edge and its way back are in one bucket. The order within a bucket is that of the edges, so the answers need no
    numbers of edges: `take` computes the buckets of a chunk again and reads on in each.

    Args:
        folder: Where the buckets are.
        num_edges: About how many edges there are, which decides how many buckets.
        written: Keys that a killed process had written into each bucket; what lies behind them is cut off.
    """

    def __init__(self, folder: Path, num_edges: int, written: list[int] | None = None) -> None:
        self._folder = folder
        self._bits = max(num_edges // _EDGES_PER_BUCKET, 0).bit_length()
        self._bits = min(self._bits, _MOST_BUCKETS.bit_length() - 1)
        self.count = 1 << self._bits
        self.written = written or [0] * self.count
        self._files: list[Any] = []

    def add(self, source: Keys, target: Keys) -> None:
        """Writes the keys of a chunk of edges."""
        if not self._files:
            self._open()
        key, bucket = self._keys(source, target)
        for number, part in self._grouped(key, bucket)[1]:
            self._files[number].write(part.tobytes())
            self.written[number] += part.size

    def sync(self) -> None:
        """Makes what was added durable; `written` then says how much that is."""
        for file in self._files:
            file.flush()
            os.fsync(file.fileno())

    def resolve(self, number: int) -> None:
        """Writes the answers of a bucket, a byte for each key, unless they are there."""
        if not self._answers(number).is_file():
            written = self.written[number]
            answers = _mutual(np.fromfile(self._keys_path(number), np.int64, written)).tobytes() if written else b""
            write_whole(self._answers(number), answers, "answers of a bucket")

    def take(self, source: Keys, target: Keys, taken: list[int]) -> npt.NDArray[np.uint8]:
        """1 for each edge of a chunk that is mutual, else 0; ``taken``, answers used of each bucket, moves on."""
        key, bucket = self._keys(source, target)
        order, groups = self._grouped(key, bucket)
        found = np.empty(key.size, np.uint8)
        at = 0
        for number, part in groups:
            answer = np.fromfile(self._answers(number), np.uint8, part.size, offset=taken[number])
            found[order[at : at + part.size]] = answer
            taken[number] += part.size
            at += part.size
        return found

    def _keys(self, source: Keys, target: Keys) -> tuple[Keys, npt.NDArray[np.uint16]]:
        """Key of each edge, the smaller end first and the direction as its last bit, and the bucket of its pair."""
        low, high = np.minimum(source, target), np.maximum(source, target)
        pair = low << 31 | high
        # Fibonacci hashing: a hub must not fill one bucket, so the pair decides and not an end.
        mixed = pair.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        bucket = (mixed >> np.uint64(48)).astype(np.uint16) >> np.uint16(16 - self._bits)
        return pair << 1 | (source > target), bucket

    def _grouped(self, key: Keys, bucket: npt.NDArray[np.uint16]) -> tuple[Keys, list[tuple[int, Keys]]]:
        """The permutation that brings keys of a bucket together, and the keys of each bucket that has any."""
        order = np.argsort(bucket, kind="stable")
        sizes = np.bincount(bucket, minlength=self.count)
        parts = np.split(key[order], np.cumsum(sizes)[:-1])
        return order, [(number, part) for number, part in enumerate(parts) if part.size]

    def _open(self) -> None:
        for number, written in enumerate(self.written):
            path = self._keys_path(number)
            path.touch()
            file = path.open("r+b")
            file.truncate(8 * written)
            file.seek(8 * written)
            self._files.append(file)

    def close(self) -> None:
        """Closes the buckets, before they are resolved or when nothing more is added."""
        for file in self._files:
            file.close()
        self._files = []

    def _keys_path(self, number: int) -> Path:
        return self._folder / f"bucket-{number}.keys"

    def _answers(self, number: int) -> Path:
        return self._folder / f"bucket-{number}.mutual"


def _mutual(key: Keys) -> npt.NDArray[np.uint8]:
    """Whether the pair of each key is there in both directions, or is a loop."""
    order = np.argsort(key)
    pair = key[order] >> 1
    # Within a run of equal pairs keys are sorted by direction: both are there iff the first and the last differ.
    begins = np.flatnonzero(np.diff(pair, prepend=-1))
    ends = np.append(begins[1:], key.size) - 1
    sorted_key = key[order]
    both = sorted_key[begins] != sorted_key[ends]
    loop = (pair >> 31) == (pair & (MOST_NODES - 1))
    found = np.empty(key.size, np.uint8)
    found[order] = np.repeat(both, ends - begins + 1) | loop
    return found
