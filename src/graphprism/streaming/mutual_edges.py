"""Out-of-core detection of mutual edges: node pairs are hashed to buckets on disk, each of which fits into memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphprism._files import write_whole

# Edges of a bucket, on average: its keys take 32 MB and are sorted in some 100 MB.
_EDGES_PER_BUCKET = 1 << 22
# Bounds the number of open files; with more edges, buckets are larger.
_MOST_BUCKETS = 512
# A key has 31 bits for each end and one for the direction.
MOST_NODES = 1 << 31

Keys = npt.NDArray[np.int64]


class MutualEdges:
    """Writes a key for every edge into the bucket of its node pair, finds mutual pairs, and reads the answers back.

    An edge and its reverse are in one bucket. Keys of a bucket are in the order of the edges, so that no edge numbers
    are stored: `take` recomputes the buckets of a chunk and continues reading in each.

    Args:
        folder: Folder of the buckets.
        num_edges: Approximate number of edges, which determines the number of buckets.
        written: Valid keys in each bucket after a killed process; the buckets are truncated there.
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
        """Flushes all added keys to disk; `written` then counts them."""
        for file in self._files:
            file.flush()
            os.fsync(file.fileno())

    def resolve(self, number: int) -> None:
        """Writes the answers of a bucket, a byte per key, unless they exist already."""
        if not self._answers(number).is_file():
            written = self.written[number]
            answers = _mutual(np.fromfile(self._keys_path(number), np.int64, written)).tobytes() if written else b""
            write_whole(self._answers(number), answers, "answers of a bucket")

    def take(self, source: Keys, target: Keys, taken: list[int]) -> npt.NDArray[np.uint8]:
        """1 for each mutual edge of a chunk, else 0; advances ``taken``, the answers read of each bucket."""
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
        # Fibonacci hashing of the pair, not of one end, so that a hub does not fill one bucket.
        mixed = pair.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        bucket = (mixed >> np.uint64(48)).astype(np.uint16) >> np.uint16(16 - self._bits)
        return pair << 1 | (source > target), bucket

    def _grouped(self, key: Keys, bucket: npt.NDArray[np.uint16]) -> tuple[Keys, list[tuple[int, Keys]]]:
        """The permutation that groups keys by bucket, and the keys of each nonempty bucket."""
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
        """Closes the bucket files, before they are resolved or once all keys are added."""
        for file in self._files:
            file.close()
        self._files = []

    def _keys_path(self, number: int) -> Path:
        return self._folder / f"bucket-{number}.keys"

    def _answers(self, number: int) -> Path:
        return self._folder / f"bucket-{number}.mutual"


def _mutual(key: Keys) -> npt.NDArray[np.uint8]:
    """1 for each key whose pair occurs in both directions or is a loop, else 0."""
    order = np.argsort(key)
    pair = key[order] >> 1
    # Equal pairs are adjacent, sorted by direction: both directions occur iff the first and the last differ.
    begins = np.flatnonzero(np.diff(pair, prepend=-1))
    ends = np.append(begins[1:], key.size) - 1
    sorted_key = key[order]
    both = sorted_key[begins] != sorted_key[ends]
    loop = (pair >> 31) == (pair & (MOST_NODES - 1))
    found = np.empty(key.size, np.uint8)
    found[order] = np.repeat(both, ends - begins + 1) | loop
    return found
