"""Files of several graphs: with a column ``graph_id``, each graph is split by itself."""

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from graphprism.cli.app import app
from graphprism.io import read_graph, remote_backend
from graphprism.streaming import EdgeFileError, edge_file, split_file
from tests.streaming.cases import in_memory, write

pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(edge_file, "CHUNK", 64)


def three_graphs(seed: int = 0) -> dict[str, np.ndarray]:
    """Graphs 0, 5 and 9 with the node ids 0 to 11, their edges mixed."""
    rng = np.random.default_rng(seed)
    source, target = rng.integers(0, 12, (2, 200))
    return {"source": source, "target": target, "graph_id": rng.choice([0, 5, 9], 200)}


@pytest.mark.parametrize("split", ["degree", "ppr", "direction", "degree, ppr * direction"])
def test_split_file_splits_each_graph_by_itself(split: str, tmp_path: Path):
    columns = three_graphs()
    expected = torch.zeros(200, dtype=torch.long)
    for graph in (0, 5, 9):
        own = columns["graph_id"] == graph
        expected[torch.from_numpy(own)] = in_memory({end: columns[end][own] for end in ("source", "target")}, split)
    file = split_file(write(tmp_path / "in.parquet", columns), tmp_path / "out.parquet", split)
    found = file.read()
    assert torch.equal(found["edge_type"], expected)
    assert (file.graph, file.num_nodes) == ("graph_id", 36)
    number, batch = found["edge_index"], found["batch"]
    assert found["node_id"][number].tolist() == [columns["source"].tolist(), columns["target"].tolist()]
    assert batch[number].tolist() == [np.searchsorted([0, 5, 9], columns["graph_id"]).tolist()] * 2
    assert torch.equal(read_graph(tmp_path / "out.parquet").batch, batch)


def test_split_file_takes_any_column_of_graphs_that_is_named(tmp_path: Path):
    columns = three_graphs()
    expected = split_file(write(tmp_path / "a.parquet", columns), tmp_path / "a.out.parquet").read()["edge_type"]
    columns["Mol ID"] = columns.pop("graph_id")
    path, out = write(tmp_path / "b.parquet", columns), tmp_path / "b.out.parquet"
    with pytest.warns(UserWarning, match=r"the column 'Mol ID' is not read, equal ids are one node: graph='Mol ID'"):
        merged = split_file(path, out)
    assert (merged.graph, merged.num_nodes) == (None, 12)
    named = split_file(path, out, graph="Mol ID")
    assert (named.graph, named.num_nodes) == ("Mol ID", 36)
    assert torch.equal(named.read()["edge_type"], expected)
    with pytest.raises(EdgeFileError, match="has no column 'molecule'; there are source, target, Mol ID"):
        split_file(path, out, graph="molecule")
    with pytest.raises(EdgeFileError, match="the graph must be another column than source and target, got 'source'"):
        split_file(path, out, graph="source")


@pytest.mark.filterwarnings("default")  # the command prints it
def test_split_names_a_column_of_graphs_that_it_does_not_read(tmp_path: Path):
    columns = three_graphs()
    columns["mol_id"] = columns.pop("graph_id")
    words = ["split", str(write(tmp_path / "in.parquet", columns)), "-o", str(tmp_path / "out.parquet")]
    found = CliRunner().invoke(app, words)
    assert "warning: " in found.stderr
    assert "--graph mol_id" in found.stderr
    assert "36 nodes" in CliRunner().invoke(app, [*words, "--graph", "mol_id"]).stdout


@pytest.mark.parametrize(
    ("graphs", "words"),
    [
        (["a", "b"], r"graph ids must be whole numbers, got string in column 'graph_id': number the graphs, or rename"),
        ([0, -1], r"column 'graph_id' must hold numbers in \[0, 2\^31\) where .*, got -1"),
        ([0, 1 << 31], r"column 'graph_id' must hold numbers in \[0, 2\^31\) where .*, got 2147483648"),
    ],
)
def test_split_file_says_which_graph_ids_it_takes(graphs: list[object], words: str, tmp_path: Path):
    path = write(tmp_path / "in.parquet", {"source": [0, 1], "target": [1, 0], "graph_id": graphs})
    with pytest.raises(EdgeFileError, match=words):
        split_file(path, tmp_path / "out.parquet")


def test_split_file_of_several_graphs_is_not_read_as_one(tmp_path: Path):
    file = split_file(write(tmp_path / "in.parquet", three_graphs()), tmp_path / "out.parquet")
    with pytest.raises(ValueError, match="must hold one graph, got several"):
        file.edge_index_of(0)
    with pytest.raises(ValueError, match="a graph store must hold one graph"):
        remote_backend(file.path)


def test_split_command_says_that_graphs_are_split_by_themselves(tmp_path: Path):
    path = tmp_path / "in.csv"
    path.write_text("graph_id,source,target\n0,0,1\n0,1,0\n1,0,1\n1,0,2\n")
    run = CliRunner().invoke(app, ["split", str(path), "-o", str(tmp_path / "out.parquet")], env={"COLUMNS": "200"})
    assert run.exit_code == 0, run.output
    assert "4 edges of 5 nodes" in run.stdout
    assert "Each graph of the column graph_id is split by itself." in run.stdout
    run = CliRunner().invoke(app, ["split", str(path), "--sql", "duckdb"])
    assert run.exit_code == 2
    assert "--sql must not come with a column graph_id" in run.stderr


def test_split_file_takes_no_number_of_nodes_for_several_graphs(tmp_path: Path):
    path = write(tmp_path / "in.parquet", three_graphs())
    with pytest.raises(EdgeFileError, match=r"`num_nodes` must be None for several graphs .column graph_id., got"):
        split_file(path, tmp_path / "out.parquet", "ppr", num_nodes=50)
