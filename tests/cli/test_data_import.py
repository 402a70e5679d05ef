import numpy as np
import pytest
from typer.testing import CliRunner

from graphprism.cli.app import app
from graphprism.datasets import load
from tests.datasets.own_files import write_people


def imported(*arguments):
    return CliRunner().invoke(app, ["data", "import", *map(str, arguments)], env={"COLUMNS": "200"})


def test_import_says_what_it_understood_and_packs(tmp_path):
    folder = write_people(tmp_path / "people")
    run = imported(folder, "--target", "group", "--drop", "sick,income,likes_a,likes_b", "--data", tmp_path)
    assert run.exit_code == 0, run.output
    lines = run.stdout.splitlines()
    assert lines[0] == "people: 1 graph, 60 nodes, 240 edges, undirected; node multiclass by accuracy."
    assert lines[1] == "Node features: 1 number, 1 column of 0 and 1, 1 category: town (3 values)."
    assert lines[2] == "Target 'group': blue 20 (33 %), green 20 (33 %), red 20 (33 %)."
    assert lines[3] == "Folds: 48 / 6 / 6 nodes for training, validation and test."
    assert lines[-1].endswith("people.npz is written (0.0 MB).")
    assert load("people", tmp_path).num_outputs == 3


def test_dry_run_writes_nothing(tmp_path):
    run = imported(write_people(tmp_path / "people"), "--target", "sick", "--dry-run", "--data", tmp_path / "sets")
    assert run.exit_code == 0, run.output
    assert not (tmp_path / "sets").exists()


def test_wrong_column_is_one_line(tmp_path):
    run = imported(write_people(tmp_path / "people"), "--target", "wealth", "--data", tmp_path)
    assert run.exit_code == 2
    assert run.stderr.startswith("error: ")
    assert run.stderr.count("\n") == 1


def test_import_takes_the_weights_that_are_named(tmp_path):
    folder = write_people(tmp_path / "people")
    ring = (folder / "edges.csv").read_text("utf-8").split()[1:]
    (folder / "edges.csv").write_text("from,to,trust\n" + "".join(f"{edge},{n / 4}\n" for n, edge in enumerate(ring)))
    run = imported(folder, "--target", "group", "--weight", "trust", "--directed", "--data", tmp_path)
    assert run.exit_code == 0, run.output
    assert "Edge weights: 0 to 29.75, mean 14.88." in run.stdout.splitlines()
    assert sorted(load("people", tmp_path).edge_weight.tolist()) == [n / 4 for n in range(120)]


@pytest.mark.filterwarnings("default")
def test_warnings_of_an_import_name_no_line_of_ours(tmp_path):
    draw = np.random.default_rng(0)
    edges = {"edge_index": draw.integers(0, 30, (2, 90)), "edge_attr": np.eye(3)[draw.integers(0, 3, 90)]}
    np.savez(tmp_path / "own.npz", x=draw.normal(size=(30, 3)), y=np.arange(30) % 2, **edges)
    run = imported(tmp_path / "own.npz", "-o", tmp_path / "packed.npz")
    assert run.exit_code == 0, run.output
    assert run.stderr.startswith("warning: `edge_attr` is read by no network and no split")
    assert run.stderr.count("\n") == 1
