"""Options that change nothing, and names that are wrong, are said before anything is trained or written."""

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

from graphprism.cli.app import app
from graphprism.datasets import from_data, molecules, save
from graphprism.experiments.tune import parse_choice
from graphprism.nn import CONVOLUTIONS, GNN
from tests.datasets.own_files import write_molecules

WALK = ("--pe", 2, "--pe-encoder", "walk", "--walk-steps", 3)


def call(*words: object):
    return CliRunner().invoke(app, list(map(str, words)), env={"COLUMNS": "300"})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    save(molecules(40), folder / "small.npz")
    return folder


def trained(data: Path, out: Path, *words: object):
    small = ("--dataset", "small", "--data", data, "--layers", 1, "--epochs", 1, "--accelerator", "cpu", "--out", out)
    return call("train", *small, *words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "gcn", "--split", "ppr"), "--split (no mrs- model)"),
        (("--model", "gcn", "--learned-split"), "--learned-split (no mrs- model)"),
        (("--model", "gcn,mrs-gcn", "--alpha", 0.3), "--alpha (no dir- model)"),
        (("--model", "mrs-gcn", "--start", "independent", "--decay", 3), "--decay (no shared start)"),
        (("--model", "gcn", "--head", "constant"), "--head (--head-layers is 1)"),
        (("--model", "gcn", "--budget", 900), "--budget (--width is given)"),
        (("--model", "gcn,mrs-gine", "--dropout", 0.1, "--edge-dropout"), "--edge-dropout (no model with edge states)"),
        (("--model", "gated-gcn", "--dropout", 0, "--edge-dropout"), "--edge-dropout (--dropout is 0)"),
        (("--model", "gcn", *WALK, "--edge-walks"), "--edge-walks (no model with edge features)"),
    ],
)
def test_train_says_which_options_no_run_reads(data: Path, tmp_path: Path, words: tuple[object, ...], said: str):
    run = trained(data, tmp_path, "--width", 4, *words)
    assert run.exit_code == 0, run.output
    assert f"Not used: {said}.\n" in run.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("--model", "gcn,mrs-gcn", "--split", "ppr", "--decay", 3),
        ("--model", "mrs-dir-gcn", "--alpha", 0.3),
        ("--model", "gcn", "--head", "constant", "--head-layers", 2),
        ("--model", "gcn", "--split", "degree"),
        ("--model", "gcn,mrs-gated-gcn", "--dropout", 0.1, "--edge-dropout"),
        ("--model", "gine", *WALK, "--edge-walks"),
    ],
)
def test_train_says_nothing_of_options_that_a_run_reads(data: Path, tmp_path: Path, words: tuple[object, ...]):
    run = trained(data, tmp_path, "--width", 4, *words)
    assert run.exit_code == 0, run.output
    assert "Not used" not in run.output


def test_train_says_that_layers_on_nodes_read_no_types_of_edges(tmp_path: Path):
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(30, (2, 80), generator=generator)
    graph = Data(x=torch.rand(30, 4, generator=generator), edge_index=edges, edge_attr=edges.sum(0) % 3)
    graph.y = torch.arange(30) % 2
    save(from_data(graph, name="typed"), tmp_path / "typed.npz")
    common = ("--dataset", "typed", "--data", tmp_path, "--epochs", 1, "--accelerator", "cpu", "--out", tmp_path)
    run = call("train", *common, "--model", "gcn,gine,gated-gcn")
    assert run.exit_code == 0, run.output
    assert "Not used: types of edges by gine, gated-gcn (their layers take them on graphs alone); --split" in run.stdout
    assert "Not used" not in call("train", *common, "--model", "gcn").stdout


def test_run_file_of_a_plain_model_has_no_unread_options(data: Path, tmp_path: Path):
    assert trained(data, tmp_path, "--width", 4, "--model", "gcn", "--save", tmp_path / "run.toml").exit_code == 0
    run = call("train", tmp_path / "run.toml", "--data", data, "--out", tmp_path, "--accelerator", "cpu")
    assert run.exit_code == 0, run.output
    assert "Not used" not in run.output


def test_train_says_what_random_walks_need(data: Path, tmp_path: Path):
    walk = ("--model", "gcn", "--width", 8, "--pe-encoder", "walk")
    assert "`pe` must be at least 1 with pe_encoder='walk', got 0" in trained(data, tmp_path, *walk).stderr
    assert "`walk_steps` must be at least 1" in trained(data, tmp_path, *walk, "--pe", 4).stderr
    assert trained(data, tmp_path, *walk, "--pe", 4, "--walk-steps", 5).exit_code == 0


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution_updates_edges_if_its_network_does(name: str):
    state = torch.get_rng_state()
    told = CONVOLUTIONS[name].updates_edges
    assert torch.equal(torch.get_rng_state(), state)
    assert told == GNN(name, 8, 1, 1, num_edge_types=(3,)).updates_edges == ("gated-gcn" in name)


def test_import_refuses_a_metric_before_it_writes(tmp_path: Path):
    folder = write_molecules(tmp_path / "mol")
    for metric, words in (("mea", "must be one of ['mae',"), ("auroc", "must be one of ['mae', 'rmse'] for the task")):
        run = call("data", "import", folder, "--target", "energy", "--metric", metric, "--data", tmp_path / "sets")
        assert run.exit_code == 2, run.output
        assert words in run.stderr
    assert not (tmp_path / "sets").exists()


@pytest.mark.parametrize(
    ("option", "file"), [("--pairs", "nowhere.csv"), ("--graph", "mol")], ids=["pairs", "older graph"]
)
def test_predict_refuses_options_of_other_tasks(tmp_path: Path, option: str, file: str):
    folder, out = write_molecules(tmp_path / "mol"), tmp_path / "out"
    assert call("data", "import", folder, "--target", "energy", "--data", tmp_path).exit_code == 0
    common = ("--data", tmp_path, "--out", out, "--accelerator", "cpu")
    assert call("train", "--dataset", "mol", "--width", 4, "--layers", 1, "--epochs", 1, *common).exit_code == 0
    run = call("predict", out, "--input", folder, "-o", tmp_path / "new.csv", option, tmp_path / file)
    assert run.exit_code == 2, run.output
    assert f"`{option[2:]}` must be None for targets of graphs, got " in run.stderr
    assert not (tmp_path / "new.csv").exists()


def test_report_refuses_a_name_that_is_neither_page_nor_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    run = call("report", "--out", "results")
    assert run.exit_code == 2
    assert "results: must be a folder of results or a file that ends in .html, got neither" in run.stderr
    assert not (tmp_path / "results").exists()


def test_report_says_where_it_found_no_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    run = call("report")
    assert run.exit_code == 0
    assert f"There is no {Path('outputs/ledger.jsonl')}; `graphprism report --out FOLDER` takes the runs" in run.stderr


def test_tune_suggests_a_field_and_refuses_a_norm_before_the_first_trial(data: Path, tmp_path: Path):
    with pytest.raises(ValueError, match="a field of a run that may vary, got 'dropuot'; did you mean dropout"):
        parse_choice("dropuot=0.2|0.5")
    small = ("--dataset", "small", "--data", data, "--width", 4, "--layers", 1, "--epochs", 1, "--out", tmp_path / "t")
    run = call("tune", *small, "--vary", "norm=batch|bacth", "--accelerator", "cpu", "--trials", 3)
    assert run.exit_code == 2
    assert run.stderr.startswith("error: `norm` must be")
