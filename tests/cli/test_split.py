"""``graphprism split``: a file to a file, as SQL, and messages."""

import pytest
from typer.testing import CliRunner

from graphprism.cli.app import app
from graphprism.streaming import open_split

pytest.importorskip("pyarrow")

PATH = "source,target,bond\n0,1,0\n1,0,1\n1,2,0\n2,1,2\n"


@pytest.fixture
def edges(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text(PATH)
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["split", *map(str, arguments)])


def test_split_writes_types_and_prints_counts(edges, tmp_path):
    done = run(edges, "--by", "degree * attr(bond)", "-o", tmp_path / "out.parquet")
    assert done.exit_code == 0, done.output
    assert open_split(tmp_path / "out.parquet").read()["edge_type"].tolist() == [0, 4, 1, 6]
    assert "4 edges of 3 nodes in 9 relations, checksummed" in done.stdout.replace("\n", " ")
    assert "counting" in done.stderr
    assert "writing" in done.stderr


def test_split_takes_the_options_of_split_file(edges, tmp_path):
    words = ("--source", "target", "--target", "source", "--nodes", "7", "--undirected", "-o", tmp_path / "out.parquet")
    done = run(edges, *words)
    assert done.exit_code == 0, done.output
    found = open_split(tmp_path / "out.parquet")
    assert (found.num_nodes, found.source, found.target, found.num_edges) == (7, "target", "source", 8)


def test_split_prints_sql(edges):
    done = run(edges, "--by", "direction", "--sql", "duckdb")
    assert done.exit_code == 0
    assert f"read_csv('{edges}')" in done.stdout
    assert "LEFT JOIN gp_pairs AS back" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--by", "degree"], "-o must name the Parquet file to write"),
        (["-o", "out.parquet", "--by", "attr(colour)"], "no column 'colour'; there are source, target, bond"),
        (["-o", "out.parquet", "--by", "core"], "must be one of ['degree', 'ppr'], got 'core'"),
        (["-o", "out.parquet", "--source", "from"], "no column 'from'"),
        (["--sql", "oracle"], "`dialect` must be one of"),
        (["--sql", "duckdb", "--undirected"], "--undirected must not come with --sql"),
    ],
)
def test_split_says_what_must_hold(arguments, message, edges, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(edges, *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv"]
