import gzip

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphprism.io import GraphFileError, read_graph
from graphprism.io import edge_list as _edge_lines

EDGES = [[0, 1, 2], [1, 2, 0]]


@pytest.fixture
def written(tmp_path):
    """Writes text or bytes to a file and gives its path."""

    def write(content, name="edges.txt"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.mark.parametrize(
    "text",
    [
        "0 1\n1 2\n2 0\n",
        "0 1\n1 2\n2 0",
        "0,1\n1,2\n2,0\n",
        "0;1\n1;2\n2;0\n",
        "0\t1\n1\t2\n2\t0\n",
        "  0   1\n\n1\t 2  \n\n\n2 , 0\n\n",
        "0 1\r\n1 2\r\n2 0\r\n",
        "\ufeff0 1\n1 2\n2 0\n",
        "source,target\n0,1\n1,2\n2,0\n",
        "# a comment\n% another\nfrom to\n0 1\n  # in between, with 3 4\n1 2\n2 0\n# Ende: käse\n",
        "0.0 1.0\n1.0 2.0\n2.0 0.0\n",
    ],
)
def test_one_graph_written_in_many_ways(written, text):
    graph = read_graph(written(text))
    assert graph.edge_index.tolist() == EDGES
    assert graph.num_nodes == 3
    assert graph.edge_weight is None
    assert graph.edge_index.dtype == torch.long


@pytest.mark.parametrize("name", ["edges.csv.gz", "edges"])
def test_gz_whatever_the_name(written, name):
    assert read_graph(written(gzip.compress(b"0,1\n1,2\n2,0\n"), name)).edge_index.tolist() == EDGES


def test_weights(written):
    graph = read_graph(written("a,b,weight\n0,1,0.5\n1,2,-2e-3\n2,0,7\n"))
    assert graph.edge_weight.tolist() == [0.5, -2e-3, 7]
    assert graph.edge_index.tolist() == EDGES


def test_numbers_are_kept_as_they_are(written):
    graph = read_graph(written("5 7\n"))
    assert graph.num_nodes == 8
    assert graph.edge_index.tolist() == [[5], [7]]


def test_undirected_adds_the_other_way_but_no_second_loop(written):
    graph = read_graph(written("0 1 2.5\n1 1 3\n"), undirected=True)
    assert graph.edge_index.tolist() == [[0, 1, 1], [1, 1, 0]]
    assert graph.edge_weight.tolist() == [2.5, 3, 2.5]


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("0,1\r1,2\r2,0\r", 1),
        ("0 1\r1 2\r2 0", 1),
        ("0,1,2\r3,4,5\r", 1),
        ("# a comment\r0,1\r1,2\r", 1),
        ("0,1\r\n1,2\r2,0\r\n", 2),
        ("0,1\r\n1,2\r\n2,0\r", 3),
        ("0 1\r\r\n1 2\r\r\n", 1),
        ("source,target\r0,1\r1,2\r", 1),
    ],
)
def test_carriage_returns_alone_are_refused(written, content, line, labels):
    with pytest.raises(GraphFileError, match=rf"line {line}: lines must end in LF or CRLF, got a carriage return"):
        read_graph(written(content), labels=labels)


def test_lines_of_crlf_cut_by_blocks(written, monkeypatch):
    path = written("0,1\r\n1,2\r\n2,0\r\n")
    for size in range(1, 12):
        monkeypatch.setattr(_edge_lines, "_BLOCK_BYTES", size)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_edge_lines, "_warn_if_cut", lambda *_: None)
            assert read_graph(path).edge_index.tolist() == EDGES, size
            assert read_graph(path, labels=True).labels == ("0", "1", "2"), size


def test_weights_beyond_whole_numbers_of_64_bits(written):
    assert read_graph(written("0 1 100000000000000000000\n1 0 7\n")).edge_weight.tolist() == [1e20, 7]


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("bob alice\nalice carol\n", ("bob", "alice", "carol")),
        ("source,target\nNew York,Oslo\nOslo,Århus\n", ("New York", "Oslo", "Århus")),
        ('"Rome, Italy",Oslo\nOslo,7\n', ("Rome, Italy", "Oslo", "7")),
        ("10000000000000\t-3\n-3\t5\n", ("10000000000000", "-3", "5")),
    ],
)
def test_names_are_numbered_as_they_appear(written, text, labels):
    graph = read_graph(written(text), labels=True)
    assert graph.edge_index.tolist() == [[0, 1], [1, 2]]
    assert graph.labels == labels
    assert graph.num_nodes == 3


def test_names_with_weights(written):
    assert read_graph(written("a b 2\nb a 0.5\n"), labels=True).edge_weight.tolist() == [2, 0.5]


@given(
    rows=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=40), size=st.integers(8, 64)
)
def test_blocks_of_any_size_give_the_same(tmp_path_factory, rows, size):
    """Also where a block ends within a line, a comment or a number."""
    path = tmp_path_factory.mktemp("blocks") / "edges.txt"
    path.write_text("".join(f"{a} {b}\n" + "# 1 2 3 4\n" * (a % 3 == 0) for a, b in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_edge_lines, "_BLOCK_BYTES", size)
        assert read_graph(path).edge_index.t().tolist() == [list(row) for row in rows]


def test_a_bad_line_in_a_later_block_has_its_number_in_the_file(written, monkeypatch):
    path = written("# one\n" + "1 2\n" * 50 + "1 x\n" + "1 2\n" * 50)
    monkeypatch.setattr(_edge_lines, "_BLOCK_BYTES", 37)
    with pytest.raises(GraphFileError, match=r"edges.txt, line 52: 'x' must be a node number"):
        read_graph(path)


BAD = {
    "empty": ("", "is empty", None),
    "blank": ("\n \n\n", "holds no edges", None),
    "comments alone": ("# nothing\n% here\n", "holds no edges", None),
    "header alone": ("source,target\n", "holds no edges", None),
    "one cell": ("5\n", "must hold source, target and possibly a weight, got 1 cells", 1),
    "four cells": ("\n1 2 3 4\n", "must hold source, target and possibly a weight, got 4 cells", 2),
    "a cell too few": ("0 1\n\n1 2\n3\n4 5\n", "must hold 2 cells as the first one does, got 1", 4),
    "a cell too many": ("0,1\n1,2,0.5\n", "must hold 2 cells as the first one does, got 3", 2),
    "an empty cell": ("0,1,1\n1,,1\n", "a cell is empty", 2),
    "an empty cell at the end": ("0,1\n1,\n", "a cell is empty", 2),
    "an empty cell at the start": ("0,1\n,1\n", "a cell is empty", 2),
    "negative": ("0 1\n1 -2\n", "must not be negative, got '-2'", 2),
    "negative first": ("-1 1\n1 2\n", "must not be negative, got '-1'", 1),
    "text": ("0 1\n1 two\n", "'two' must be a node number; names are numbered with labels=True", 2),
    "names": ("alice bob\nbob carol\n", "'bob' must be a node number", 2),
    "half a number": ("0 1\n1 2x\n", "'2x' must be a node number", 2),
    "two numbers in one cell": ("0 1\n1-2 3\n", "'1-2' must be a node number", 2),
    "two numbers with a plus": ("0 1\n1+2 3\n", "'1+2' must be a node number", 2),
    "a fraction": ("0 1\n1 2.5\n", "'2.5' must be a whole number to be a node", 2),
    "nan": ("0 1\nnan 2\n", "'nan' must be a whole number to be a node", 2),
    "infinity": ("0 1\n0 inf\n", "'inf' must be a whole number to be a node", 2),
    "too large": ("0 1\n1 99999999999999999999999\n", "must be at most 2147483647, got '99999999999999999999999'", 2),
    "sparse": ("0 2000000000\n", "reach 2000000000 with 1 edges; number them densely with labels=True", None),
    "weight text": ("0 1 0.5\n1 2 heavy\n", "'heavy' must be a number to be a weight", 2),
    "weight nan": ("0 1 0.5\n1 2 nan\n", "weights must be finite, got 'nan'", 2),
    "weight half": ("0 1 0.5\n1 2 1e\n", "'1e' must be a number to be a weight", 2),
    "weight twice": ("0 1 0.5\n1 2 1.2.3\n", "'1.2.3' must be a number to be a weight", 2),
    "latin-1": (b"0 1\n1 \xe9\n", "the line must be UTF-8 text", 2),
    "utf-16": ("0 1\n1 2\n".encode("utf-16"), "line", None),
    "binary": (bytes(range(256)) * 4, "", None),
    "no end of line": (b"1" * 3_000_000, "the line is longer than", 1),
}


@pytest.mark.parametrize("case", BAD, ids=lambda name: name.replace(" ", "-"))
def test_bad_files_end_in_one_sentence(written, case):
    content, message, line = BAD[case]
    with pytest.raises(GraphFileError) as caught:
        read_graph(written(content))
    assert message in str(caught.value)
    assert "edges.txt" in str(caught.value)
    assert "\n" not in str(caught.value)
    if line is not None:
        assert f"edges.txt, line {line}: " in str(caught.value)
        assert caught.value.line == line


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a b\nb\n", "line 2: a line must hold 2 cells as the first one does, got 1"),
        ("a\n", "line 1: a line must hold source, target and possibly a weight, got 1 cells"),
        ("a,b\nb,\n", "line 2: a cell is empty"),
        ("a b 1\nb c heavy\n", "line 2: 'heavy' must be a number"),
        ("a b 1\nb c inf\n", "line 2: weights must be finite"),
        (b"a b\n\xff c\n", "line 2: the line must be UTF-8 text"),
        ("# nothing\n", "holds no edges"),
        ("a,b\n" + "c" * 200_000 + ",d\n", "line 2: the line must hold cells (field larger"),
        ("a b 1\nb c 1_0\n", "line 2: '1_0' must be a number"),
    ],
)
def test_bad_files_of_names(written, content, message):
    with pytest.raises(GraphFileError) as caught:
        read_graph(written(content), labels=True)
    assert message in str(caught.value)


def test_three_million_lines_cut_within_a_line(tmp_path):
    """The last line has lost its second cell: it is found by number, in the second block of 16 MB."""
    path = tmp_path / "cut.txt"
    path.write_bytes(b"123 456\n" * 2_999_999 + b"123")
    with pytest.raises(
        GraphFileError, match=r"cut.txt, line 3000000: a line must hold 2 cells as the first one does, got 1"
    ):
        read_graph(path)


def test_a_large_file_cut_within_its_last_cell_warns(written, monkeypatch):
    """That cannot be told from a file without a last line break, which programs do not write."""
    monkeypatch.setattr(_edge_lines, "_BLOCK_BYTES", 16)
    with pytest.warns(UserWarning, match=r"line 8: the last line does not end in a line break"):
        assert read_graph(written("12 34\n" * 7 + "12 3")).num_nodes == 35


@pytest.mark.parametrize("damage", ["cut", "changed", "noise"])
@pytest.mark.parametrize("labels", [False, True])
def test_a_damaged_archive(written, damage, labels):
    rng = np.random.default_rng(0)
    lines = b"".join(b"%d %d\n" % tuple(row) for row in rng.integers(0, 10**6, (20_000, 2)))
    content = bytearray(gzip.compress(lines))
    if damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "changed":
        content[-8] ^= 255  # the checksum
    else:
        content[len(content) // 2 :] = rng.bytes(len(content) // 2)
    with pytest.raises(GraphFileError, match=r"edges.gz, line \d+: the compressed file is damaged or cut off"):
        read_graph(written(bytes(content), "edges.gz"), labels=labels)


def test_no_file_and_no_file_at_all(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere.csv: there is no such file"):
        read_graph(tmp_path / "nowhere.csv")
    with pytest.raises(GraphFileError, match="is a folder, not a file"):
        read_graph(str(tmp_path))


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize(("name", "is_weight"), [("since", False), ("weight", True), ("W", True), ("Value", True)])
def test_third_column_is_a_weight_only_if_it_is_called_so(tmp_path, name, is_weight, labels):
    file = tmp_path / "edges.csv"
    file.write_text(f"# years\nsource,target,{name}\n0,1,2019\n1,2,2020\n")
    graph = read_graph(file, labels=labels)
    assert graph.edge_index.tolist() == [[0, 1], [1, 2]]
    assert (graph.edge_weight is not None) == is_weight
    assert graph.note.startswith(f"third column {name!r}: ")


def test_third_column_that_is_ignored_may_be_text(tmp_path):
    file = tmp_path / "edges.csv"
    file.write_text("source,target,kind\n0,1,friend\n1,2,boss\n")
    assert read_graph(file).edge_weight is None


def test_third_column_without_a_header_holds_weights(tmp_path):
    file = tmp_path / "edges.txt"
    file.write_text("0 1 2.5\n")
    graph = read_graph(file)
    assert graph.edge_weight.tolist() == [2.5]
    assert graph.note == "third column: weights"


def test_named_edges_skip_a_header_with_a_word_above_numbers(tmp_path):
    file = tmp_path / "friends.csv"
    file.write_text("person,friend,since\nann,bob,2019\nbob,cai,2020\n")
    graph = read_graph(file, labels=True)
    assert graph.labels == ("ann", "bob", "cai")
    assert graph.edge_weight is None
    file.write_text("person,friend,weight\nann,bob,0.5\n")
    assert read_graph(file, labels=True).edge_weight.tolist() == [0.5]


def test_named_edges_tell_that_a_first_line_of_nodes_is_no_edge(written):
    graph = read_graph(written("u v\nv w\nw u\n"), labels=None)
    assert graph.note == "first line 'u v': names of columns, not an edge between these nodes"
    assert graph.edge_index.size(1) == 2
    assert read_graph(written("From,To\nAnn,Bob\n"), labels=None).note == ""


def test_nodes_without_an_edge_are_said(written):
    graph = read_graph(written("1,2\n2,3\n3,1\n3,5\n"))
    assert graph.num_nodes == 6
    assert graph.note == "nodes are numbers, 0 to 5: 2 of them in no edge (--labels takes numbers as names)"
    named = read_graph(written("1,2\n2,3\n3,1\n3,5\n"), labels=True)
    assert (named.num_nodes, named.note) == (4, "")
    weighted = read_graph(written("source,target,weight\n0,2,0.5\n"))
    assert weighted.note.startswith("third column 'weight': weights; nodes are numbers, 0 to 2: 1 of them in no edge")
