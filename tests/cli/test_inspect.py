import gzip
import json

import pytest
from typer.testing import CliRunner

from graphprism.analysis import Certificate, SplitComparison
from graphprism.cli.app import app
from graphprism.datasets import from_files, save
from graphprism.splitting import ORDERINGS
from tests.datasets.own_files import write_people


def inspect(*arguments):
    return CliRunner().invoke(app, ["inspect", *map(str, arguments)], env={"COLUMNS": "200"})


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "path.csv"
    file.write_text("source,target\n0,1\n1,2\n2,3\n")
    return file


def test_every_ordering(path):
    run = inspect(path, "--undirected")
    assert run.exit_code == 0, run.output
    assert all(name in run.stdout for name in ORDERINGS)
    assert "the nodes have no features" in run.stdout


def test_one_split_with_its_sentence(path):
    run = inspect(path, "--undirected", "--split", "degree")
    assert run.exit_code == 0, run.output
    assert "rank at least 2" in run.stdout
    assert "up" in run.stdout


def test_layer_that_silences_edges(path):
    run = inspect(path, "--split", "degree", "--layer", "mrs-gcn")
    assert run.exit_code == 0, run.output
    text = " ".join(run.stdout.split())
    assert "MRSGCNConv" in text
    assert 'Its norm "sym" silences 33 % of the edges (1 of 3 weigh 0).' in text
    every = inspect(path, "--layer", "mrs-dir-sage")
    assert every.exit_code == 0, every.output
    assert "rank: DirConv of MRSSAGEConv has at least this one" in " ".join(every.stdout.split())


def test_unknown_layer(path):
    run = inspect(path, "--layer", "gcn")
    assert run.exit_code == 2
    assert "--layer must be one of mrs-gcn, " in run.stderr


def test_json_is_read_back(path):
    comparison = SplitComparison.from_json(inspect(path, "--undirected", "--json").stdout)
    assert comparison["degree"].num_edges == 6
    certificate = Certificate.from_json(inspect(path, "--split", "degree", "--json").stdout)
    assert certificate.num_edges == 3
    assert json.loads(certificate.to_json())["num_nodes"] == 4


def test_names_and_gz(tmp_path):
    file = tmp_path / "named.txt.gz"
    file.write_bytes(gzip.compress(b"ann bob\nbob eve\n"))
    assert Certificate.from_json(inspect(file, "--labels", "--split", "bfs", "--json").stdout).num_nodes == 3
    # without a flag the file says what its nodes are
    assert Certificate.from_json(inspect(file, "--split", "bfs", "--json").stdout).num_nodes == 3
    file.write_bytes(gzip.compress(b"0 1\n1 2\n2 bob\n"))
    run = inspect(file)
    assert run.exit_code == 2
    assert "line 3: 'bob' must be a node number; names are numbered with --labels" in run.stderr


def test_molecule():
    assert inspect("molecule:3", "--split", "degree").exit_code == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"0 1\n0\n", "line 2"),
        (b"0 -1\n", "line 1"),
        (b"0 1\n\xff\xfe\n", "line 2"),
        (b"PK\x03\x04 cut off", "damaged"),
        (b"<graphml>", "bad.txt"),
    ],
)
def test_bad_file_is_one_sentence(tmp_path, content, words):
    file = tmp_path / "bad.txt"
    file.write_bytes(content)
    run = inspect(file)
    assert run.exit_code == 2
    assert run.stdout == ""
    assert words in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_missing_file_folder_and_split(path, tmp_path):
    for arguments, words in (
        ([tmp_path / "none.csv"], "there is no such file"),
        ([tmp_path], "is a folder, not a file"),
        ([path, "--split", "degre"], "got 'degre'"),
        ([path, "--split", "features"], "`x`"),
    ):
        run = inspect(*arguments)
        assert run.exit_code == 2
        assert words in run.stderr
        assert "Traceback" not in run.stderr


@pytest.mark.parametrize("split", [(), ("--split", "degree")])
@pytest.mark.parametrize("ends", ["0,1", "ann,bob"])
def test_inspect_ignores_a_third_column_that_is_not_called_weight_and_says_so(tmp_path, ends, split):
    file = tmp_path / "friends.csv"
    file.write_text(f"source,target,since\n{ends},2019\n")
    run = inspect(file, *split)
    assert run.exit_code == 0, run.output
    assert "friends.csv: third column 'since': ignored" in run.stdout


def test_inspect_says_that_a_third_column_holds_weights(tmp_path):
    file = tmp_path / "edges.txt"
    file.write_text("0 1 0.5\n1 2 2\n")
    assert "third column: weights" in inspect(file).stdout


def test_inspect_prints_sizes_in_the_comparison(path):
    assert "4 nodes, 6 edges" in inspect(path, "--undirected").stdout


def test_inspect_of_a_folder_says_how_to_import_it(tmp_path):
    run = inspect(tmp_path)
    assert run.exit_code == 2
    assert f"graphprism data import {tmp_path} --target COLUMN" in run.stderr


def test_inspect_prefers_a_data_set_to_a_folder_of_its_name(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tables").mkdir()
    path.rename(tmp_path / "tables.npz")  # the first bytes say what a file is
    assert inspect("tables", "--data", tmp_path).exit_code == 0


def test_inspect_takes_columns_of_the_tables_of_an_import(tmp_path):
    folder = write_people(tmp_path / "people")
    edges = (folder / "edges.csv").read_text().splitlines()
    kinds = ["how", *(("kind", "like", "owes")[number % 3] for number in range(len(edges) - 1))]
    (folder / "edges.csv").write_text("".join(f"{line},{kind}\n" for line, kind in zip(edges, kinds, strict=True)))
    save(from_files(folder, task="link", directed=True), tmp_path / "people.npz")
    run = inspect(tmp_path / "people.npz", "--split", "attr(how)", "--json")
    assert run.exit_code == 0, run.output
    same = inspect(tmp_path / "people.npz", "--split", "attr(edge_attr)", "--json")
    assert Certificate.from_json(run.stdout).rank_counts == Certificate.from_json(same.stdout).rank_counts
    wrong = inspect(tmp_path / "people.npz", "--split", "attr(who)")
    assert "got a graph without it, but with how" in wrong.stderr


def test_inspect_names_the_nodes_whose_numbers_it_shows(tmp_path):
    file = tmp_path / "names.csv"
    file.write_text("ann,bob\nbob,cid\ncid,ann\ncid,dan\ndan,eve\n")
    run = inspect(file, "--split", "degree")
    assert "witnesses: nodes 0 (0, 1, 0) and 1 (0, 0, 1)" in run.stdout
    assert run.stdout.splitlines()[-1] == "names.csv: node 0 is 'ann'; node 1 is 'bob'."
    ring = tmp_path / "ring.csv"
    ring.write_text("".join(f"n{number},n{(number + 1) % 15}\n" for number in range(15)))
    shown = inspect(ring, "--split", "core").stdout.splitlines()[-1]
    assert shown.count(" is ") == 12
    assert " is " not in inspect(file).stdout.splitlines()[-1]
