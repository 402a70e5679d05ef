"""`graphprism estimate` from the shell."""

import pytest
from typer.testing import CliRunner

from graphprism import training
from graphprism.cli.app import app
from graphprism.training import Run
from graphprism.training.estimate import Estimate

SMALL = ("--layers", "1", "--width", "4", "--epochs", "2", "--accelerator", "cpu")

pytestmark = pytest.mark.usefixtures("few_molecules")


def test_estimate_prints_a_line_for_each_model():
    run = CliRunner().invoke(app, ["estimate", *SMALL], env={"COLUMNS": "120"})
    assert run.exit_code == 0, run.output
    assert "gcn" in run.stdout
    assert "mrs-gcn" in run.stdout
    assert "2 runs of 2 epochs" in run.stdout


def test_estimate_of_a_run_that_does_not_fit_ends_with_one(monkeypatch):
    large = Estimate(Run(), 1.0, 1.0, peak_bytes=2e12, free_bytes=1e9, tried=False, advice="must be smaller")
    monkeypatch.setattr(training, "estimate", lambda *_, **__: large)
    run = CliRunner().invoke(app, ["estimate", *SMALL], env={"COLUMNS": "120"})
    assert run.exit_code == 1
    assert "2000.00 GB (rough)" in run.stdout
    assert "mrs-gcn must be smaller." in run.stdout
