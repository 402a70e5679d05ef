"""Small files that ask for much: one sentence each, in little time and memory."""

import gzip
import importlib
import json
import os
import tracemalloc
import zipfile

import numpy as np
import pytest

from graphprism.datasets import DatasetFileError, load
from graphprism.io import GraphFileError, read_graph

ABOUT = {"name": "a", "level": "graph", "task": "regression", "metric": "mae"}
SET = {
    "about": np.array(json.dumps(ABOUT)),
    "edge_index": np.array([[0, 1], [1, 0]]),
    "x": np.zeros((2, 1), np.float32),
    "num_nodes": np.array([2]),
    "num_edges": np.array([2]),
    "y": np.zeros((1, 1), np.float32),
    "split": np.array([0]),
}
SENTENCE = r"^[^\n]*set\.npz: [^\n]*$"


@pytest.fixture
def packed(tmp_path):
    def pack(*without, **changed):
        path = tmp_path / "set.npz"
        np.savez(path, **{key: value for key, value in {**SET, **changed}.items() if key not in without})
        return path

    return pack


@pytest.fixture
def unpacks_to_8_mb(monkeypatch):
    monkeypatch.setattr("graphprism._files._UNPACKED_BYTES", 8 << 20)


@pytest.fixture
def at_most_100_mb():
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


@pytest.mark.parametrize("exponent", [25, 30, 40, 47, 48, 62, 63])
@pytest.mark.parametrize("graphs", [1, 2])
def test_packed_file_with_too_many_nodes(packed, at_most_100_mb, exponent, graphs):
    many = np.array([1 << exponent] * graphs, np.uint64)
    edges = np.array([2, 0][:graphs])
    with pytest.raises(GraphFileError, match=SENTENCE):
        read_graph(packed("x", num_nodes=many, num_edges=edges))
    path = packed(num_nodes=many, num_edges=edges)
    with pytest.raises(GraphFileError, match=SENTENCE):
        read_graph(path)
    with pytest.raises(DatasetFileError, match=SENTENCE):
        load(path)


@pytest.mark.parametrize("key", ["x", "y", "edge_attr"])
def test_packed_file_of_long_doubles(packed, key):
    if np.dtype(np.longdouble).itemsize == 8:
        pytest.skip("they are doubles here")
    path = packed(**{key: SET.get(key, np.zeros((2, 1))).astype(np.longdouble)})
    with pytest.raises(DatasetFileError, match=f"`{key}` must hold numbers of at most 8 bytes, got float"):
        load(path)
    if key != "y":
        with pytest.raises(GraphFileError, match=f"`{key}` must hold numbers of at most 8 bytes, got float"):
            read_graph(path)


@pytest.mark.parametrize("depth", [1_000, 100_000])
@pytest.mark.parametrize("pair", ["[]", ('{"a":', "}")])
def test_packed_file_about_which_is_nested_deeply(packed, depth, pair):
    path = packed(about=np.array(pair[0] * depth + pair[1] * depth))
    assert read_graph(path).name == "set"
    with pytest.raises(DatasetFileError, match="`about` must be JSON"):
        load(path)


def _add_zeros(path, key, shape, dtype, size):
    """Adds an array of zeros, a thousandth of its size in the file."""
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open(f"{key}.npy", "w", force_zip64=True) as file,
    ):
        np.lib.format.write_array_header_2_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
        for _ in range(size >> 24):
            file.write(bytes(1 << 24))


@pytest.mark.parametrize(
    ("key", "shape", "dtype"),
    [("x", (2, 1 << 21), "<f4"), ("edge_index", (2, 1 << 20), "<i8"), ("about", (), f"<U{1 << 22}")],
)
def test_packed_file_that_unpacks_to_a_thousand_times_its_size(packed, unpacks_to_8_mb, key, shape, dtype):
    path = packed(key)
    _add_zeros(path, key, shape, dtype, 1 << 24)
    for read, error in ((read_graph, GraphFileError), (load, DatasetFileError)):
        with pytest.raises(error, match="must unpack to at most 8,388,608, got more"):
            read(path)


def test_packed_file_with_a_member_that_is_no_array(packed):
    path = packed("x")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x", b"text")
    for read, error in ((read_graph, GraphFileError), (load, DatasetFileError)):
        with pytest.raises(error, match="`x` must be an array"):
            read(path)


def test_packed_file_that_is_one_array(tmp_path):
    np.save(tmp_path / "set.npy", np.zeros(3))
    (tmp_path / "set.npy").rename(tmp_path / "set.npz")
    with pytest.raises(DatasetFileError, match="it is no zip archive"):
        load(tmp_path / "set.npz")


@pytest.mark.parametrize("line", [b"0 1\n", b"\n", b"#\n", b"<!-- -->\n"])
@pytest.mark.parametrize("members", [1, 32])  # of several the last bytes name the size of the last one alone
def test_gz_file_that_unpacks_to_hundreds_of_times_its_size(tmp_path, unpacks_to_8_mb, line, members):
    path = tmp_path / "edges.csv.gz"
    path.write_bytes(gzip.compress(line * ((1 << 25) // len(line) // members), 9) * members)
    with pytest.raises(GraphFileError, match=r"must unpack to at most \d+,\d+,\d+, got more"):
        read_graph(path)


def test_gz_file_that_claims_more_than_it_holds(tmp_path):
    path = tmp_path / "edges.csv.gz"
    path.write_bytes(gzip.compress(b"0 1\n")[:-4] + b"\xff" * 4)
    with pytest.raises(GraphFileError, match="the compressed file is damaged or cut off"):
        read_graph(path)


@pytest.mark.parametrize("name", ["a.csv", "a.npz", "a.graphml.gz"])
def test_read_graph_of_a_pipe(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(GraphFileError, match="must be a file, got a pipe or a device"):
        read_graph(tmp_path / name)


def test_read_graph_of_a_device():
    with pytest.raises(GraphFileError, match="must be a file, got a pipe or a device"):
        read_graph("/dev/zero")


GRAPH = '<graphml><graph><node id="a"/></graph></graphml>'


@pytest.mark.parametrize(
    "encoding", ["latin-9x", "utf-7", "big5", "base64", "idna", "punycode", "undefined", "x" * 999]
)
def test_graphml_in_an_unknown_encoding(tmp_path, encoding):
    path = tmp_path / "a.graphml"
    path.write_text(f'<?xml version="1.0" encoding="{encoding}"?>{GRAPH}')
    with pytest.raises(GraphFileError, match=r"line 1: must be in UTF-8, UTF-16 or an encoding of one byte"):
        read_graph(path)


@pytest.mark.parametrize("encoding", ["utf-8", "US-ASCII", "iso-8859-15", "windows-1252", "koi8-r"])
def test_graphml_in_a_known_encoding(tmp_path, encoding):
    path = tmp_path / "a.graphml"
    path.write_text(f'<?xml version="1.0" encoding="{encoding}"?>{GRAPH}')
    assert read_graph(path).labels == ("a",)


def test_graphml_that_is_nested_deeply(tmp_path, at_most_100_mb):
    path = tmp_path / "a.graphml"
    path.write_text("<graphml><graph>" + "<a>" * 1_000_000)
    with pytest.raises(GraphFileError, match="elements must be nested at most 100 deep"):
        read_graph(path)


def test_graphml_with_a_long_number(tmp_path):
    path, key = tmp_path / "a.graphml", '<key id="k" for="node" attr.type="{}"/>'
    data = GRAPH.replace("/>", f'><data key="k">{"1" * 10_000_000}</data></node>')
    path.write_text(data.replace("<graph>", key.format("int") + "<graph>"))
    with pytest.raises(GraphFileError, match="a number must have at most 1000 characters"):
        read_graph(path)
    path.write_text(data.replace("<graph>", key.format("string") + "<graph>"))
    assert read_graph(path).x is None


def test_read_graph_that_does_not_fit_into_memory(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("0 1\n")

    def fails(*_, **__):
        raise MemoryError

    monkeypatch.setattr(importlib.import_module("graphprism.io.read_graph"), "read_edge_list", fails)
    with pytest.raises(GraphFileError, match=r"a\.csv: must fit into memory"):
        read_graph(tmp_path / "a.csv")
