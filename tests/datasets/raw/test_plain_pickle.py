import os
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from graphprism.datasets import DatasetFileError, load
from graphprism.datasets.raw import safe_object_array
from graphprism.datasets.raw.torch_file import parse_pickle, read_torch_file
from tests.datasets.raw.raw_node_files import write_arxiv
from tests.datasets.raw_files import write_peptides, write_zinc
from tests.warm_python import WarmPython

ROOT = Path(__file__).resolve().parents[3]


class Call:
    """Calls a function when it is unpickled."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> tuple[object, ...]:
        return self.function, self.arguments


def fuzz(python: WarmPython, count: int, seed: int) -> None:
    pytest.importorskip("resource", reason="bounds memory as POSIX does")
    done = python.run("-W", "ignore", "-m", "tests.datasets.raw.fuzz_worker", count, seed)
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr[-3000:]}"
    words = done.stdout.split()
    assert int(words[0]) == count
    assert 0.3 * count < int(words[2]) < count


def test_damaged_files_neither_crash_nor_call_anything(warm_python):
    fuzz(warm_python, 500, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_many_damaged_files_neither_crash_nor_call_anything(warm_python, seed):
    fuzz(warm_python, 25_000, seed)


def npy(content: bytes) -> bytes:
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


def pointer(address: int) -> bytes:
    """``numpy.ndarray((8,), "O", <bytes of a pointer>)``, which numpy makes objects of."""
    return (
        b"\x80\x02cnumpy\nndarray\n(K\x08\x85X\x01\x00\x00\x00OC" + bytes([64]) + struct.pack("<8Q", *[address] * 8)
    ) + b"tR."


def test_array_over_a_pointer_of_the_file_is_refused(warm_python, tmp_path):
    write_arxiv(tmp_path / "raw" / "arxiv-year")
    path = tmp_path / "raw" / "arxiv-year" / "arxiv-year-splits.npy"
    path.write_bytes(npy(pointer(0x4141414141414141)))
    with pytest.raises(ValueError, match="it calls an object that is not a known function"):
        safe_object_array(path)
    script = f"from graphprism.datasets import load; load('arxiv-year', {str(tmp_path)!r})"
    done = warm_python.run("-W", "ignore", "-c", script)
    assert done.returncode == 1, f"exit code {done.returncode}"
    assert "DatasetFileError" in done.stderr


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(np.array(["text"]), protocol=4),
        pickle.dumps(np.array([(1, 2)], dtype="i4,i4"), protocol=4),
        pickle.dumps(np.array([1], dtype="M8[s]"), protocol=4),
        pickle.dumps(np.array([1j]), protocol=4),
        pickle.dumps({1, 2}, protocol=4),
        pickle.dumps(print, protocol=4),
        pickle.dumps(bytearray(b"abc"), protocol=5),
        pickle.dumps(Call(np.ndarray, (8,), "i8"), protocol=4),
        pickle.dumps(Call(np.frombuffer, b"abcdefgh"), protocol=4),
        b"\x80\x04N.\x80",
        b"\x80\x02(" + b"\x85" * 10 + b".",
        b"\x80\x02" + b"N" + b"\x85" * 100_000 + b"}h\x00.",  # tuples in tuples
        b"\x80\x02}N" + b"\x85" * 100_000 + b"Ns.",  # ... as a key
        b"\x80\x02cnumpy\ndtype\nN" + b"\x85" * 100_000 + b"\x85R.",  # ... as a name
        b"\x80\x02N" + b"\x85" * 100_000 + b")R.",  # ... as what is called
        b"\x80\x02]q\x00h\x00a.",  # a list in itself
        b"\x80\x02]Nar\xff\xff\xff\x7f" + b".N",  # memory for two thousand million names
    ],
)
def test_pickles_of_anything_else(content):
    if content.endswith(b".N"):
        assert parse_pickle(content) == [None]
    elif content.startswith(b"\x80\x04N."):
        assert parse_pickle(content) is None
    else:
        with pytest.raises(ValueError, match="holds more than arrays") as caught:
            parse_pickle(content)
        assert "\n" not in str(caught.value)


def test_lists_named_again_and_again_are_refused():
    laughs = b"\x80\x02]q\x00(" + b"N" * 50 + b"e"
    for level in range(10):
        laughs += b"]q" + bytes([level + 1]) + b"(" + (b"h" + bytes([level])) * 20 + b"e"
    with pytest.raises(ValueError, match="again and again"):
        parse_pickle(laughs + b".")


def tensor(size: tuple[int, ...], stride: tuple[int, ...], offset: int = 0) -> Call:
    storage = torch.arange(6).storage() if not hasattr(torch, "UntypedStorage") else torch.arange(6)._typed_storage()
    return Call(torch._utils._rebuild_tensor_v2, storage, offset, size, stride, False, {})


def test_tensors_with_steps():
    assert parse_pickle(pickle.dumps(torch.arange(6).view(2, 3).t())).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert parse_pickle(pickle.dumps(torch.arange(6)[2:5:2])).tolist() == [2, 4]
    assert parse_pickle(pickle.dumps(torch.zeros(0, 3))).shape == (0, 3)
    assert parse_pickle(pickle.dumps(torch.tensor(True))).tolist() is True


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [
        ((7,), (1,), 0),
        ((2,), (6,), 0),
        ((3,), (2,), 2),
        ((2,), (-1,), 1),
        ((2,), (1,), -1),
        ((1 << 40,), (0,), 0),
        ((2, 3), (3,), 0),
        ((1,) * 40, (1,) * 40, 0),
        ((1 << 70,), (1,), 0),
        ((2.0,), (1,), 0),
    ],
)
def test_tensors_outside_of_their_numbers(size, stride, offset):
    with pytest.raises(ValueError, match="holds more than arrays"):
        parse_pickle(pickle.dumps(tensor(size, stride, offset)))


def test_booleans_must_be_zero_or_one():
    content = pickle.dumps(np.array([True, False] * 20), protocol=4)
    whole = np.array([True, False] * 20).tobytes()
    assert whole in content
    with pytest.raises(ValueError, match="stored as 0 or 1, got 255"):
        parse_pickle(content.replace(whole, b"\xff" + whole[1:]))


@pytest.mark.parametrize("legacy", [False, True])
def test_torch_files(tmp_path, legacy):
    path = tmp_path / "a.pt"
    shared = torch.arange(6)
    torch.save([(shared[1:], torch.rand(2, 3)), {"a": shared}], path, _use_new_zipfile_serialization=not legacy)
    (tail, numbers), rest = read_torch_file(path)
    assert tail.tolist() == [1, 2, 3, 4, 5]
    assert (numbers.dtype, numbers.shape) == (np.float32, (2, 3))
    assert rest["a"].tolist() == [0, 1, 2, 3, 4, 5]
    whole = path.read_bytes()
    for size in range(0, len(whole), 37):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="the file is damaged"):
            read_torch_file(path)


def test_torch_archive_that_is_compressed(tmp_path):
    path, bomb = tmp_path / "a.pt", tmp_path / "bomb.pt"
    torch.save([torch.zeros(1000)], path)
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in whole.namelist():
            packed.writestr(name, whole.read(name))
    with pytest.raises(ValueError, match="must not be compressed"):
        read_torch_file(bomb)


@pytest.mark.parametrize("name", ["zinc12k", "peptides-func"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_raw_files_of_molecules_call_nothing(tmp_path, name, split):
    made = tmp_path / "made"
    payload = Call(os.mkdir, str(made))
    if name == "zinc12k":
        write_zinc(tmp_path)
        path = tmp_path / "pyg" / "ZINC" / "raw" / f"{split}.pickle"
        path.write_bytes(pickle.dumps(payload))
    else:
        write_peptides(tmp_path, name, 10)
        path = tmp_path / "pyg" / "LRGBDataset" / name / "raw" / f"{split}.pt"
        torch.save([payload], path)
    with pytest.raises(DatasetFileError, match=r"it asks for (posix|nt)\.mkdir") as caught:
        load(name, tmp_path)
    assert caught.value.path == path
    assert "\n" not in str(caught.value)
    assert not made.exists()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "a list of molecules"),
        ({}, "a list of molecules"),
        ([{}] * 9, "a molecule must hold atom_type, bond_type"),
        (
            [{"atom_type": torch.ones(2), "bond_type": torch.ones(3, 3), "logP_SA_cycle_normalized": 1.0}] * 9,
            "must hold",
        ),
    ],
)
def test_zinc_files_of_anything_else(tmp_path, value, message):
    write_zinc(tmp_path)
    path = tmp_path / "pyg" / "ZINC" / "raw" / "val.pickle"
    path.write_bytes(pickle.dumps(value))
    with pytest.raises(DatasetFileError, match=message):
        load("zinc", tmp_path)


@pytest.mark.parametrize("index", ["1,9", "-1", "1,1", "", "one"])
def test_zinc_index_of_no_molecules(tmp_path, index):
    write_zinc(tmp_path)
    (tmp_path / "pyg" / "ZINC" / "raw" / "val.index").write_text(index)
    with pytest.raises(DatasetFileError, match="numbers of molecules"):
        load("zinc12k", tmp_path)
