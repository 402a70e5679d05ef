import json

import pytest
import torch
from typer.testing import CliRunner

from graphprism.cli.app import app
from graphprism.experiments import Figure2Result
from graphprism.results import TableResult
from tests.real_data import needs_data

FILES = ("figure-2.json", "figure-2.png", "figure-2.svg")
FEW = ["--graphs", "molecules", "--seeds", "3", "--layers", "64"]


def figure_2(out, *arguments):
    return CliRunner().invoke(app, ["reproduce", "figure-2", *arguments, "--out", str(out)])


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    outs = [tmp_path_factory.mktemp("figure") / "new" / "folder" for _ in range(2)]
    return outs, [figure_2(out, *FEW) for out in outs]


def test_writes_all_files_and_the_table(two_runs):
    outs, (run, _) = two_runs
    assert run.exit_code == 0, run.output
    assert sorted(file.name for file in (outs[0] / "figure-2").iterdir()) == sorted(FILES)
    assert all(word in run.stdout for word in ("GCN", "MRS-SAGE", "64", str(outs[0] / "figure-2" / "figure-2.svg")))
    assert "12 of 12 runs done" in run.stderr


def test_table_has_the_medians(two_runs):
    (out, _), _ = two_runs
    result = Figure2Result.from_json((out / "figure-2" / "figure-2.json").read_text("utf-8"))
    table = TableResult.from_json((out / "tables" / "figure-2-molecules.json").read_text("utf-8"))
    assert table.columns == ("1", "2", "4", "8", "16", "32", "64")
    cell = table.cell("MRS-SAGE", "32")
    assert (cell.ours.mean, cell.ours.count) == (float(result.median("mrs-sage")[31]), 3)


def test_same_bits_twice(two_runs):
    (first, second), _ = two_runs
    for name in FILES:
        assert (first / "figure-2" / name).read_bytes() == (second / "figure-2" / name).read_bytes(), name


def test_json_holds_the_settings_and_the_collapse(two_runs):
    (out, _), _ = two_runs
    text = (out / "figure-2" / "figure-2.json").read_text("utf-8")
    fields = json.loads(text)
    assert fields["seeds"] == [0, 1, 2]
    assert fields["versions"]["torch"] == torch.__version__
    assert fields["spec"]["layers"] == 64
    result = Figure2Result.from_json(text)
    assert float(result.mean("gcn")[-1]) < float(result.mean("mrs-gcn")[-1]) / 10


def test_pictures_are_pictures(two_runs):
    (out, _), _ = two_runs
    assert (out / "figure-2" / "figure-2.png").read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in (out / "figure-2" / "figure-2.svg").read_text("utf-8")


def test_zero_collapse_is_shown(tmp_path):
    run = figure_2(tmp_path, "--models", "gcn", *FEW, "--channels", "1")
    assert run.exit_code == 0, run.output
    assert "zero collapse" in run.stdout
    summary = json.loads((tmp_path / "figure-2" / "figure-2.json").read_text("utf-8"))["summary"]["gcn"]
    assert summary["zero_collapse"][-1] > 0


def test_bar_on_a_terminal(tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    run = figure_2(tmp_path, "--models", "gcn", "--graphs", "molecules", "--seeds", "2", "--layers", "2")
    assert run.exit_code == 0, run.output
    assert "2/2" in run.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--models", "gcn,nix", "--graphs", "molecules"], "got ['nix']"),
        (["--graphs", "mutag"], "`graphs` must be one of"),
        (["--graphs", "molecules", "--seeds", "0"], "`seeds` must be at least 1, got 0"),
        (["--graphs", "zinc"], "name it with --data or GRAPHPRISM_DATA"),
    ],
)
def test_wrong_input_is_one_sentence(tmp_path, monkeypatch, arguments, words):
    monkeypatch.delenv("GRAPHPRISM_DATA", raising=False)
    run = figure_2(tmp_path / "out", *arguments)
    assert run.exit_code == 2
    assert words in run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@needs_data("zinc12k.npz", "cora.npz")
@pytest.mark.parametrize("graphs", ["cora", "zinc"])
def test_real_graphs_show_the_collapse(tmp_path, graphs):
    run = figure_2(tmp_path, "--graphs", graphs, "--seeds", "2")
    assert run.exit_code == 0, run.output
    result = Figure2Result.from_json((tmp_path / "figure-2" / "figure-2.json").read_text("utf-8"))
    last = {model: float(result.mean(model)[-1]) for model in result.distances}
    assert last["gcn"] < last["mrs-gcn"] / 10
    assert last["sage"] < last["mrs-sage"] / 1e6
