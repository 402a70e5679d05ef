"""Reads damaged files in a process of its own: a crash ends it, and whatever a file makes Python do is noticed.

``python -m tests.datasets.raw.fuzz_worker COUNT SEED``
"""

import codecs
import io
import os
import pickle
import resource
import sys
import tempfile
from collections import OrderedDict, defaultdict
from pathlib import Path

import numpy as np
import torch

from graphprism.datasets.raw import safe_object_array
from graphprism.datasets.raw.pickled_numbers import SparseRows
from graphprism.datasets.raw.torch_file import read_pickle, read_torch_file
from tests.datasets.raw.planetoid_files import _sparse, dumps

# Beyond what the process has when all is imported; the files have a few hundred bytes.
SPARE_MEMORY = 512 << 20
# Steps of a pickle, so that half of all changes put another step or an odd number where one was.
STEPS = (
    b".(0123456789FIJKLMNPQRSTUVX]abcdeghijlopqrstu})}\x80\x81\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x92\x93\x94\x95"
)
NUMBERS = (b"\xff", b"\x7f", b"\x00", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80", b"\xff" * 8)
# Evaluating text, loading code, starting programs and changing files; reading one file is what readers are for.
HARMFUL = ("compile", "exec", "import", "pickle.", "os.", "subprocess.", "socket.", "shutil.", "ctypes.", "code.")
seen: list[str] = []
watching = False


def audit(event: str, arguments: tuple[object, ...]) -> None:
    if watching and (event.startswith(HARMFUL) or (event == "open" and arguments[1] not in ("r", "rb"))):
        seen.append(f"{event} {arguments!r}"[:200])


def originals() -> list[tuple[object, bytes]]:
    splits = np.empty(2, object)
    splits[:] = [
        {"train": np.arange(9), "test": torch.arange(5)},
        {"train": np.arange(3, dtype=">i4"), "valid": [1, 2]},
    ]
    objects, legacy, archive = io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.save(objects, splits, allow_pickle=True)
    molecules = [(torch.ones(2, 9, dtype=torch.long), torch.rand(2, 3).t(), torch.tensor([[0, 1], [1, 0]]))]
    torch.save(molecules, legacy, _use_new_zipfile_serialization=False)
    torch.save(molecules, archive)
    pickles = [
        dumps(_sparse(np.eye(4))),
        dumps(np.asfortranarray(np.arange(12, dtype=np.int32).reshape(3, 4))),
        dumps(defaultdict(list, {0: [1, 2], 1: [0], 2: [0]})),
        pickle.dumps([{"atom_type": torch.arange(3), "y": np.float32(2), "none": OrderedDict()}], protocol=4),
    ]
    files = [(safe_object_array, objects.getvalue())] * 4
    files += [(read_pickle, content) for content in pickles]
    return [*files, (read_torch_file, legacy.getvalue()), (read_torch_file, archive.getvalue())]


def changed(content: bytes, rng: np.random.Generator) -> bytes:
    found = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        if not found:
            break
        at, kind = int(rng.integers(len(found))), int(rng.integers(6))
        if kind == 0:
            found[at] = int(rng.integers(256))
        elif kind == 1:
            found[at] = STEPS[int(rng.integers(len(STEPS)))]
        elif kind == 2:
            number = NUMBERS[int(rng.integers(len(NUMBERS)))]
            found[at : at + len(number)] = number
        elif kind == 3:
            del found[at : at + int(rng.integers(1, 9))]
        elif kind == 4:
            piece = int(rng.integers(len(found)))
            found[at:at] = found[piece : piece + int(rng.integers(1, 30))]
        else:
            found[at:at] = STEPS[int(rng.integers(len(STEPS)))].to_bytes(1, "little")
    return bytes(found)


def use(value: object) -> None:
    """Reads all numbers, so that memory which is not the file's would be noticed."""
    if isinstance(value, list | tuple) and not isinstance(value, SparseRows):
        for each in value:
            use(each)
    elif isinstance(value, dict):
        use(list(value.values()))
    elif isinstance(value, SparseRows):
        try:
            value.dense(1 << 20)
        except ValueError:
            return
    elif isinstance(value, np.ndarray):
        value.tobytes()
        np.nonzero(value)


def main(count: int, seed: int) -> None:
    global watching
    rng, files = np.random.default_rng(seed), originals()
    path = Path(tempfile.mkdtemp()) / "file"
    for read, content in files:  # once whole: all that Python imports on demand is there
        path.write_bytes(content)
        use(read(path))
    for name in ("raw_unicode_escape", "unicode_escape", "cp437", "ascii", "latin1"):
        codecs.lookup(name)
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if os.path.exists("/proc/self/statm") else 0
    if pages:
        limit = pages * resource.getpagesize() + SPARE_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    sys.addaudithook(audit)
    refused = 0
    for number in range(count):
        read, content = files[number % len(files)]
        damaged = changed(content, rng)
        path.write_bytes(damaged)
        watching, sentence = True, ""
        try:
            use(read(path))
        except ValueError as error:
            refused += 1
            sentence = str(error)
        except BaseException:
            print(f"file {number} of seed {seed}: {damaged!r}", file=sys.stderr)
            raise
        finally:
            watching = False
        assert "\n" not in sentence, sentence
        assert not seen, f"file {number} of seed {seed}: {seen}"
    path.unlink()
    path.parent.rmdir()
    print(f"{count} files, {refused} refused")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
