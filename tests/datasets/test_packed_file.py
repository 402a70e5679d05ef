import json
import os
import signal
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from graphprism.datasets import DatasetFileError, PackedDataset, molecules, read, save
from tests.datasets.rewrite import members, rewrite
from tests.datasets.small_sets import one_graph, three_graphs


def assert_same(found: PackedDataset, wanted: PackedDataset) -> None:
    for field in fields(PackedDataset):
        one, other = getattr(found, field.name), getattr(wanted, field.name)
        if isinstance(other, torch.Tensor):
            assert one.tolist() == other.tolist(), field.name
        elif field.name != "sha256":
            assert one == other, field.name


@pytest.mark.parametrize("make", [three_graphs, one_graph, lambda: molecules(25)])
def test_round_trip(tmp_path, make):
    path = tmp_path / "made" / "set.npz"
    save(make(), path)
    found = read(path)
    assert_same(found, make())
    assert len(found.sha256) == 64
    assert [file.name for file in path.parent.iterdir()] == ["set.npz"]


def test_numbers_are_small_on_disk_and_the_file_is_the_same_again(tmp_path):
    first, second = tmp_path / "a.npz", tmp_path / "b.npz"
    save(three_graphs(), first)
    save(read(first), second)
    assert first.read_bytes() == second.read_bytes()
    arrays = members(first)
    assert {arrays[key].dtype.str for key in ("x", "edge_index", "edge_attr", "split", "num_nodes")} == {"|u1"}
    assert arrays["y"].dtype == np.float32


@pytest.mark.parametrize(
    ("numbers", "dtype"),
    [
        ([0, 255], "u1"),
        ([0, 256], "u2"),
        ([-1, 127], "i1"),
        ([-1, 200], "i2"),
        ([-(2**31), 0], "i4"),
        ([-1, 2**40], "i8"),
    ],
)
def test_large_and_negative_numbers_keep_their_value(tmp_path, numbers, dtype):
    x = torch.tensor(numbers * 3)[:, None]
    save(replace(three_graphs(), x=x, node_types=()), tmp_path / "set.npz")
    assert members(tmp_path / "set.npz")["x"].dtype == np.dtype(dtype)
    assert read(tmp_path / "set.npz").graph(1).x.tolist() == x[2:5].tolist()


@pytest.mark.parametrize("dtype", ["<u2", ">u2", "<u4", "<u8", ">i8"])
def test_integers_that_torch_does_not_have(tmp_path, dtype):
    path = rewrite(tmp_path / "set.npz", three_graphs(), {"edge_index": np.array([[0, 1, 1, 2], [1, 0, 2, 1]], dtype)})
    dataset = read(path)
    assert dataset.edge_index.dtype in (torch.int32, torch.int64)
    assert dataset.batch([0, 1]).edge_index.tolist() == [[0, 1, 3, 4], [1, 0, 4, 3]]


def test_what_the_file_does_not_say(tmp_path):
    path = rewrite(
        tmp_path / "set.npz", three_graphs(), {"about": np.array(json.dumps({"level": "graph", "note": "mine"}))}
    )
    with pytest.raises(DatasetFileError, match="must name as task"):
        read(path)
    found = read(path, {"task": "regression", "metric": "mae", "note": "default", "num_node_types": (28,)})
    assert (found.name, found.task, found.node_types, found.note, found.sha256) == (
        "set", "regression", (28,), "mine", "",
    )  # fmt: skip


@pytest.mark.parametrize("key", ["x", "edge_index", "edge_attr", "y", "split", "num_nodes"])
def test_checksum_finds_what_is_in_range(tmp_path, key):
    path = tmp_path / "set.npz"
    save(molecules(12), path)
    arrays = members(path)
    arrays[key] = arrays[key].copy()
    arrays[key].flat[:2] = arrays[key].flat[:2][::-1]  # two numbers change places, or else one of them changes
    if np.array_equal(arrays[key], members(path)[key]):
        arrays[key].flat[0] = arrays[key].flat[0] - 1 if arrays[key].flat[0] else 1
    np.savez(path, **arrays)
    with pytest.raises(DatasetFileError, match="the checksum is not that of the arrays"):
        read(path)


def test_checksum_covers_what_is_said(tmp_path):
    path = tmp_path / "set.npz"
    save(three_graphs(), path)
    arrays = members(path)
    arrays["about"] = np.array(str(arrays["about"]).replace('"mae"', '"ap"'))
    np.savez(path, **arrays)
    with pytest.raises(DatasetFileError, match="checksum"):
        read(path)


def test_no_cut_and_no_changed_byte_is_loaded_as_something_else(tmp_path):
    whole, damaged = tmp_path / "whole.npz", tmp_path / "damaged.npz"
    save(three_graphs(), whole)
    content = whole.read_bytes()
    variants = [content[:size] for size in range(0, len(content), 7)]
    variants += [content[:at] + bytes([content[at] ^ 0xA5]) + content[at + 1 :] for at in range(0, len(content), 3)]
    found = 0
    for variant in variants:
        damaged.write_bytes(variant)
        try:
            assert_same(read(damaged), three_graphs())  # a date in the archive, for instance, does not matter
        except DatasetFileError:
            found += 1
    assert found > 0.5 * len(variants)


def test_missing_file_and_folder(tmp_path):
    for path in (tmp_path / "none.npz", tmp_path):
        with pytest.raises(FileNotFoundError, match=f"{path.name}: there is no such file"):
            read(path)


def test_a_bad_set_is_not_written(tmp_path):
    path = tmp_path / "set.npz"
    save(three_graphs(), path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="`y` must hold finite numbers"):
        save(replace(three_graphs(), y=torch.full((3, 1), torch.nan)), path)
    assert path.read_bytes() == before


@pytest.mark.skipif(os.name != "posix", reason="elsewhere an open file cannot be replaced")
def test_who_reads_the_old_file_meanwhile_reads_all_of_it(tmp_path):
    path = tmp_path / "set.npz"
    save(three_graphs(), path)
    before = path.read_bytes()
    with path.open("rb") as reader:
        save(one_graph(), path)
        assert reader.read() == before
    assert_same(read(path), one_graph())


def test_a_failure_while_writing_leaves_the_old_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "set.npz"
    save(three_graphs(), path)
    before = path.read_bytes()

    def half(file, **arrays):
        file.write(b"PK half of it")
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez_compressed", half)
    with pytest.raises(OSError, match="no space left"):
        save(one_graph(), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import os, sys
from graphprism.datasets import molecules, save
written = 0
class Killed:
    def __init__(self, file): self.file = file
    def __getattr__(self, name): return getattr(self.file, name)
    def write(self, data):
        global written
        written += self.file.write(data)
        self.file.flush()
        if written > int(sys.argv[2]): print("half", flush=True); sys.stdin.read()
        return len(data)
import numpy
whole = numpy.savez_compressed
numpy.savez_compressed = lambda file, **arrays: whole(Killed(file), **arrays)
save(molecules(60, seed=1), sys.argv[1])
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("old", [False, True])
def test_a_process_killed_while_writing(warm_python, tmp_path, old):
    path = tmp_path / "set.npz"
    if old:
        save(molecules(60), path)
    with warm_python.start("-W", "ignore", "-c", KILLED, path, 2000) as process:
        assert process.stdout.readline() == "half\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert [file.stat().st_size > 2000 for file in tmp_path.glob(".set.npz.*.tmp")] == [True]  # it was in the middle
    assert path.exists() == old
    if old:
        assert_same(read(path), molecules(60))
    save(three_graphs(), path)
    assert_same(read(path), three_graphs())
