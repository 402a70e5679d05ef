"""Splits of files against the same splits in memory."""

import sys

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphprism.streaming import EdgeFileError, edge_file, open_split, split_file
from tests.streaming.cases import SPLITS, in_memory, random_edges, write

pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(edge_file, "CHUNK", 64)


@pytest.mark.parametrize("split", SPLITS)
def test_split_file_gives_the_relations_of_split_edges(split, tmp_path):
    columns = random_edges()
    file = split_file(write(tmp_path / "in.parquet", columns, row_group_size=100), tmp_path / "out.parquet", split)
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column_names == [*columns, "edge_type"]
    for name, values in columns.items():
        np.testing.assert_array_equal(table[name].to_numpy(), values)
    expected = in_memory(columns, split)
    assert table["edge_type"].to_pylist() == expected.tolist()
    assert (file.num_edges, file.num_nodes) == (700, 60)
    assert file.counts == tuple(torch.bincount(expected, minlength=file.num_relations).tolist())
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("seed", range(3))
def test_split_file_ties_of_page_rank_are_those_in_memory(seed, tmp_path):
    """Two copies of a graph, twins joined, edges in any order: values of twins differ by rounding alone."""
    rng = np.random.default_rng(seed)
    source, target = rng.integers(0, 40, (2, 300))
    twins = np.arange(40)
    order = rng.permutation(680)
    columns = {
        "source": np.concatenate([source, source + 40, twins, twins + 40])[order],
        "target": np.concatenate([target, target + 40, twins + 40, twins])[order],
    }
    file = split_file(write(tmp_path / "in.parquet", columns), tmp_path / "out.parquet", "ppr")
    expected = in_memory(columns, "ppr")
    joined = torch.from_numpy(abs(columns["source"] - columns["target"]) == 40)
    assert (expected[joined] == 2).all()
    assert (expected != 2).sum() > 500
    assert torch.equal(file.read()["edge_type"], expected)


def test_split_file_reads_back_as_data(tmp_path):
    columns = random_edges()
    data = Data(**split_file(write(tmp_path / "in.parquet", columns), tmp_path / "out.parquet", "degree").read())
    assert data.edge_index.tolist() == [columns["source"].tolist(), columns["target"].tolist()]
    assert torch.equal(data.edge_type, in_memory(columns, "degree"))
    assert data.num_nodes == 60
    np.testing.assert_array_equal(data.weight.numpy(), columns["weight"])
    taken = {**columns, "num_nodes": columns["bond"], "edge_index": columns["bond"]}
    named = split_file(write(tmp_path / "b.parquet", taken), tmp_path / "b.out.parquet", "degree").read()
    assert named["num_nodes"] == 60
    assert torch.equal(named["edge_index"], data.edge_index)


@pytest.mark.parametrize("kind", ["csv", "bare", "tabs", "gz", "npy", "npy_rows", "npz", "folder"])
def test_split_file_reads_every_format(kind, tmp_path):
    columns = random_edges()
    ends = np.stack([columns["source"], columns["target"]])
    path = tmp_path / kind
    separator = "\t" if kind == "tabs" else ","
    lines = [separator.join(map(str, row)) for row in zip(*ends, columns["bond"], strict=True)]
    if kind in ("csv", "tabs"):
        path.write_text(
            "# a comment\u2028 of one\x0c line\n" + "\n".join([separator.join(("src", "dst", "bond")), *lines]) + "\n"
        )
    elif kind == "bare":
        path.write_text("\n".join(lines))
    elif kind == "gz":
        import gzip

        path = tmp_path / "in.csv.gz"
        path.write_bytes(gzip.compress("\n".join(["src,dst,bond", *lines]).encode()))
    elif kind == "npz":
        with path.open("wb") as file:
            np.savez(file, edge_index=ends, num_nodes=60)
    elif kind == "folder":
        path.mkdir()
        for number, part in enumerate(np.array_split(np.arange(700), 3)):
            write(path / f"part-{number}.parquet", {key: value[part] for key, value in columns.items()})
    else:
        with path.open("wb") as file:
            np.save(file, ends if kind == "npy" else ends.T)
    found = split_file(path, tmp_path / "out.parquet", "degree").read()
    assert found["edge_index"].tolist() == ends.tolist()
    assert torch.equal(found["edge_type"], in_memory(columns, "degree"))


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_split_file_undirected_adds_the_way_back_as_read_graph_does(suffix, tmp_path):
    columns = random_edges()
    path = tmp_path / f"in.{suffix}"
    if suffix == "csv":
        path.write_text("\n".join(f"{a},{b}" for a, b in zip(columns["source"], columns["target"], strict=True)) + "\n")
    else:
        write(path, columns)
    found = split_file(path, tmp_path / "out.parquet", "degree, ppr", undirected=True).read()
    turned = columns["source"] != columns["target"]
    both = {
        "source": np.append(columns["source"], columns["target"][turned]),
        "target": np.append(columns["target"], columns["source"][turned]),
    }
    assert found["edge_index"].tolist() == [both["source"].tolist(), both["target"].tolist()]
    assert torch.equal(found["edge_type"], in_memory(both, "degree, ppr"))


@pytest.mark.parametrize("split", ["degree", "ppr * direction"])
def test_split_file_with_sparse_ids(split, tmp_path):
    columns = random_edges()
    ids = np.sort(np.random.default_rng(1).choice(1 << 62, 60, replace=False)) - (1 << 61)
    there = np.unique(np.append(columns["source"], columns["target"]))
    numbers = {key: np.searchsorted(there, columns[key]) for key in ("source", "target")}
    given = {key: ids[columns[key]] for key in ("source", "target")}
    path = write(tmp_path / "in.parquet", given)
    with pytest.raises(EdgeFileError, match=r"node ids must be numbers from 0, got -.*--sparse-ids"):
        split_file(path, tmp_path / "out.parquet", split)
    file = split_file(path, tmp_path / "out.parquet", split, sparse_ids=True)
    assert file.num_nodes == there.size
    found = file.read()
    assert torch.equal(found["edge_type"], in_memory(numbers, split))
    np.testing.assert_array_equal(found["node_id"].numpy(), ids[there])
    assert found["edge_index"].tolist() == [numbers["source"].tolist(), numbers["target"].tolist()]
    np.testing.assert_array_equal(pq.read_table(tmp_path / "out.parquet")["source"].to_numpy(), given["source"])


def test_split_file_without_edges(tmp_path):
    empty = {"source": np.zeros(0, np.int64), "target": np.zeros(0, np.int64)}
    file = split_file(write(tmp_path / "in.parquet", empty), tmp_path / "out.parquet", "degree * direction")
    assert (file.num_edges, file.num_nodes, file.num_relations) == (0, 0, 6)
    assert file.read()["edge_index"].shape == (2, 0)


# Splits with a real SIGKILL at the given pass.
CHILD = """
import os, signal, sys
from graphprism.streaming import edge_file, split_file
edge_file.CHUNK, passes = 128, sys.modules["graphprism.streaming.passes"]
passes.SAVE_SECONDS = 0.0
edges, output, name, at = sys.argv[1:]

def kill(found, done, total):
    if found.startswith(name) and done >= int(at):
        os.kill(os.getpid(), signal.SIGKILL)

split_file(edges, output, "degree * direction * attr(bond)", progress=kill)
"""


def test_split_file_goes_on_after_sigkill_and_writes_the_same_bytes(warm_python, tmp_path, monkeypatch):
    monkeypatch.setattr(edge_file, "CHUNK", 128)
    columns, split = random_edges(), "degree * direction * attr(bond)"
    path, output = write(tmp_path / "in.parquet", columns), tmp_path / "out.parquet"
    for name, at in (("spilling", 400), ("writing", 320)):
        done = warm_python.run("-W", "ignore", "-c", CHILD, path, output, name, at)
        assert done.returncode == -9, done.stderr
        assert not output.exists()
    seen: list[tuple[str, int]] = []
    split_file(path, output, split, progress=lambda name, done, total: seen.append((name, done)))
    assert not {"counting", "spilling pairs"} & {name for name, done in seen if done < 384}
    assert next(done for name, done in seen if name == "writing") == 384
    whole = tmp_path / "whole.parquet"
    assert torch.equal(split_file(path, whole, split).read()["edge_type"], in_memory(columns, split))
    assert output.read_bytes() == whole.read_bytes()


def test_split_file_goes_on_with_page_rank_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["graphprism.streaming.passes"], "SAVE_SECONDS", 0.0)
    columns = random_edges()
    path, output = write(tmp_path / "in.parquet", columns), tmp_path / "out.parquet"
    for name in ("counting", "PageRank, step 1 ", "PageRank, step 9 ", "PageRank, step 15 "):
        first: list[tuple[str, int]] = []

        def stop(found, done, total, name=name, first=first):
            first.append((found, done))
            if found.startswith(name) and done >= 300:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            split_file(path, output, "ppr", progress=stop)
    assert first[0][0].startswith("PageRank, step 9 ")
    assert first[0][1] > 200
    assert torch.equal(split_file(path, output, "ppr").read()["edge_type"], in_memory(columns, "ppr"))


@pytest.mark.parametrize("damage", ["lost", "short", "many nodes"])
def test_split_file_does_without_spilled_edges(tmp_path, monkeypatch, damage):
    if damage == "many nodes":
        monkeypatch.setattr(sys.modules["graphprism.streaming.page_rank"], "MOST_SPILLED_NODES", 3)
    monkeypatch.setattr(sys.modules["graphprism.streaming.passes"], "SAVE_SECONDS", 0.0)
    columns = random_edges()
    columns["target"][:100:2] = columns["source"][:100:2]  # loops, which are not spilled
    path, output = write(tmp_path / "in.parquet", columns), tmp_path / "out.parquet"

    def stop(found, done, total):
        if found.startswith("PageRank, step 9 ") and done >= 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        split_file(path, output, "ppr", progress=stop)
    spilled = tmp_path / ".out.parquet.work" / "spilled.target"
    assert spilled.is_file() == (damage != "many nodes")
    if damage == "lost":
        spilled.unlink()
    elif damage == "short":
        spilled.write_bytes(spilled.read_bytes()[:-4])
    assert torch.equal(split_file(path, output, "ppr").read()["edge_type"], in_memory(columns, "ppr"))


def test_split_file_starts_anew_for_other_edges(tmp_path):
    path, output = write(tmp_path / "in.parquet", random_edges()), tmp_path / "out.parquet"

    def stop(name, done, total):
        if name == "writing" and done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        split_file(path, output, "degree", progress=stop)
    assert (tmp_path / ".out.parquet.work" / "rows").stat().st_size > 100
    other = random_edges(seed=1)
    write(path, other)
    assert torch.equal(split_file(path, output, "degree").read()["edge_type"], in_memory(other, "degree"))


def test_split_file_leaves_the_old_output_until_the_new_one_is_whole(tmp_path):
    path, output = write(tmp_path / "in.parquet", random_edges()), tmp_path / "out.parquet"
    split_file(path, output, "degree")
    before = output.read_bytes()

    def look(name, done, total):
        assert output.read_bytes() == before

    split_file(path, output, "direction", progress=look)
    assert open_split(output).split == "direction"


def test_split_file_refuses_a_second_writer(tmp_path):
    path, output = write(tmp_path / "in.parquet", random_edges()), tmp_path / "out.parquet"

    def again(name, done, total):
        with pytest.raises(OSError, match="another process is writing it"):
            split_file(path, output, "degree")

    split_file(path, output, "degree", progress=again)
    assert open_split(output).num_edges == 700


@pytest.mark.parametrize("place", ["rows", "footer", "about", "end"])
def test_open_split_notices_a_changed_byte(place, tmp_path):
    output = tmp_path / "out.parquet"
    split_file(write(tmp_path / "in.parquet", random_edges()), output, "degree")
    content = bytearray(output.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little")
    at = {"rows": 500, "footer": len(content) - footer + 20, "about": content.index(b"num_edges"), "end": -1}[place]
    content[at] ^= 1
    output.write_bytes(content)
    with pytest.raises(EdgeFileError, match=r"out\.parquet: .*split the edges again"):
        open_split(output).verify()
    if place == "rows":
        with pytest.raises(EdgeFileError, match="the checksum of row group 0 does not match"):
            open_split(output).read()


@pytest.mark.parametrize("size", [0, 3, 11, 12, 1000, -1, -9])
def test_open_split_refuses_a_file_that_is_cut_off(size, tmp_path):
    output = tmp_path / "out.parquet"
    split_file(write(tmp_path / "in.parquet", random_edges()), output, "degree")
    output.write_bytes(output.read_bytes()[:size])
    with pytest.raises(EdgeFileError, match="truncated"):
        open_split(output)


def test_open_split_refuses_any_other_parquet_file(tmp_path):
    with pytest.raises(EdgeFileError, match="got one without its checksums"):
        open_split(write(tmp_path / "in.parquet", random_edges()))


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"source": ["a"], "target": ["b"]}, {}, "node ids must be whole numbers, got .*string"),
        ({"source": [0, None], "target": [1, 1]}, {}, "must have a value in every row"),
        ({"source": [1 << 40], "target": [0]}, {}, "with few gaps, got 1099511627776, .* takes 8,796 GB"),
        ({"source": [7], "target": [0]}, {"num_nodes": 7}, "must be below 7, the number of nodes, got 7"),
        ({"source": [0]}, {}, "at least two columns, got source"),
        ({"source": [0], "target": [1]}, {"by": "attr(bond)"}, "no column 'bond'; there are source, target"),
        ({"source": [0], "target": [1], "b": [-1]}, {"by": "attr(b)"}, "`b` must"),
        (
            {"source": [0], "target": [1], "b": [(1 << 63) - 1]},
            {"by": "degree * attr(b)"},
            "at most 2.63 - 1 relations",
        ),
        ({"source": [0], "target": [1], "b": ["x"]}, {"by": "attr(b)"}, "one whole number per edge, got .*string"),
        ({"source": [0], "target": [1]}, {"by": "core"}, r"one of \['degree', 'ppr'\], got 'core'"),
        ({"source": [0], "target": [1]}, {"by": "degree(kind=in)"}, r"got degree\(kind='in'\)"),
        ({"source": [0], "target": [1]}, {"by": "attr(source, column=1)"}, "a column of their own"),
        ({"source": [0], "target": [1]}, {"by": "community"}, "by order, direction and attribute, got by_community"),
        ({"source": [0], "target": [1]}, {"source": "from"}, "no column 'from'"),
        ({"source": [0], "target": [1], "edge_type": [0]}, {}, "must not have a column `edge_type` yet"),
    ],
)
def test_split_file_says_what_must_hold(columns, options, message, tmp_path):
    path = write(tmp_path / "in.parquet", columns)
    with pytest.raises(ValueError, match=message):
        split_file(path, tmp_path / "out.parquet", **{"by": "degree", **options})
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


def test_split_file_refuses_its_own_input(tmp_path):
    path = write(tmp_path / "in.parquet", random_edges())
    with pytest.raises(EdgeFileError, match="must not be the edge file"):
        split_file(path, path, "degree")
