from typer.testing import CliRunner

from graphprism.cli.app import app
from tests.datasets.own_files import write_people


def call(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "200"})


def test_own_files_to_predictions(tmp_path):
    folder, sets, out = write_people(tmp_path / "people"), tmp_path / "sets", tmp_path / "out"
    drop = ("--drop", "sick,income,likes_a,likes_b")
    assert call("data", "import", folder, "--target", "group", *drop, "--data", sets).exit_code == 0
    trained = call(
        "train", "--dataset", "people", "--model", "gcn,mrs-gcn", "--epochs", 5, "--data", sets, "--out", out
    )
    assert trained.exit_code == 0, trained.output
    run = call("predict", out, "--input", folder, "-o", tmp_path / "out.csv")
    assert run.exit_code == 0, run.output
    assert "60 predictions in" in run.stdout
    header, first = (tmp_path / "out.csv").read_text().splitlines()[:2]
    assert header == "person,prediction,probability_blue,probability_green,probability_red"
    assert first.startswith("p0,")


def test_missing_run_is_one_line(tmp_path):
    run = call("predict", tmp_path, "--input", tmp_path, "-o", tmp_path / "out.csv")
    assert run.exit_code == 2
    assert run.stderr.count("\n") == 1
    assert "there is no trained run" in run.stderr
