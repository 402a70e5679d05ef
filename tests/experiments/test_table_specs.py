from dataclasses import replace

import pytest

from graphprism.datasets import DATASETS
from graphprism.experiments import (
    DEPTH,
    ORDERINGS_64,
    ORDERINGS_TABLE,
    PEPTIDES,
    TRAINING_LOSS,
    ZINC,
    CellSpec,
    Settings,
    TableSpec,
)
from graphprism.experiments.plan import plan, runs_to_do
from graphprism.results import Score
from graphprism.training import Run

SPECS = (ORDERINGS_TABLE, ORDERINGS_64, ZINC, DEPTH, PEPTIDES, TRAINING_LOSS)


def cell(spec, row, column):
    return next(cell for cell in spec.cells if (cell.row, cell.column) == (row, column))


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_every_cell_has_its_published_score_and_a_run(spec):
    for each in spec.cells:
        if each.paper is None:  # of our own, beside the authors' form
            assert each.row.endswith("our LapPE")
        else:
            assert each.paper.mean > 0
            assert each.paper.deviation is not None
        assert each.best.dataset in DATASETS
        # The protocol of the paper is that of a run's defaults, but for what the table says.
        changed = {
            name for name, value in each.best.to_dict().items() if value != getattr(Run(start="independent"), name)
        }
        assert changed <= {
            "dataset",
            "model",
            "split",
            "layers",
            "lr",
            "width",
            "residual",
            "jk",
            "pe",
            *spec_changes(spec),
        }
    assert spec.source
    assert len(spec.cells) == len(spec.rows) * len(spec.columns)


def spec_changes(spec):
    return {
        "peptides": {"epochs", "batch_size", "node_encoder", "weight_init"},
        "zinc": {"epochs", "edge_residual", "weight_init"},
        "training-loss": {"epochs", "edge_residual", "weight_init"},
        "depth": {"pe_encoder", "node_encoder"},
    }.get(spec.name, set())


@pytest.mark.parametrize(
    ("spec", "best", "full"),
    [(ORDERINGS_TABLE, 21, 270), (ZINC, 36, 540), (DEPTH, 180, 549), (PEPTIDES, 69, 651), (TRAINING_LOSS, 30, 540)],
    ids=lambda value: getattr(value, "name", value),
)
def test_number_of_runs(spec, best, full):
    """Five rows of 3 x 6 configurations and three seeds, and so on; cells share runs."""
    assert len(runs_to_do(plan(spec, Settings()))) == best
    assert len(runs_to_do(plan(spec, Settings(grid="full")))) == full


@pytest.mark.parametrize(
    ("spec", "row", "column", "score", "lr", "layers"),
    [
        (ORDERINGS_TABLE, "MRS-GCN (random)", "Test (MAE)", (0.623, 0.003), 0.003, 16),
        (ORDERINGS_TABLE, "MRS-GCN (degree)", "Train (MAE)", (0.003, 0.001), 0.0003, 8),
        (ORDERINGS_TABLE, "MRS-GCN (PPR)", "Step (ms)", (6.8, 0.4), 0.001, 8),
        (ZINC, "GCN", "Test (MAE)", (0.155, 0.003), 0.0003, 16),
        (ZINC, "MRS-GIN", "Test (MAE)", (0.106, 0.004), 0.0001, 8),
        (DEPTH, "MRS-GCN + Res", "32", (0.250, 0.004), 0.003, 32),
        (DEPTH, "GCN + LapPE", "16", (0.383, 0.031), 0.001, 16),
        (PEPTIDES, "GIN", "Func train (CE)", (0.031, 0.021), 0.0001, 8),
        (PEPTIDES, "MRS-SAGE", "Struct test (MAE)", (0.293, 0.0), 0.0005, 32),
    ],
)
def test_cells_of_the_paper(spec, row, column, score, lr, layers):
    found = cell(spec, row, column)
    assert (found.paper.mean, found.paper.deviation) == score
    assert (found.best.lr, found.best.layers) == (lr, layers)


def test_tables_share_runs():
    gcn = cell(ORDERINGS_TABLE, "GCN", "Test (MAE)").best
    assert gcn.key == cell(DEPTH, "GCN", "8").best.key
    keys = {run.key for run in runs_to_do(plan(ZINC, Settings()))}
    assert {run.key for run in runs_to_do(plan(TRAINING_LOSS, Settings()))} < keys
    assert cell(ORDERINGS_64, "GCN", "Test (MAE)").best == replace(gcn, width=64)


def test_protocols():
    assert {each.best.epochs for each in ZINC.cells} == {500}
    peptides = {(each.best.dataset, each.best.epochs, each.best.batch_size) for each in PEPTIDES.cells}
    assert peptides == {("peptides-func", 500, 200), ("peptides-struct", 250, 200)}
    assert {(each.best.epochs, each.best.batch_size) for each in DEPTH.cells} == {(400, 32)}
    assert {each.best.pe for each in DEPTH.cells if "LapPE" in each.row} == {8}
    assert {each.best.jk for each in DEPTH.cells if "JK" in each.row} == {"cat"}


def test_full_grid_begins_with_the_published_run_and_has_it_once():
    found = cell(DEPTH, "MRS-GCN + Res", "32").configurations("full")
    assert [run.lr for run in found] == [0.003, 0.001, 0.0003, 0.0001]
    found = cell(ZINC, "GCN", "Test (MAE)").configurations("full")
    assert len({run.key for run in found}) == len(found) == 18
    assert (found[0].lr, found[0].layers) == (0.0003, 16)


def test_wrong_specs_are_errors():
    with pytest.raises(ValueError, match="`reading` must be one of"):
        CellSpec("a", "b", reading="nix")
    with pytest.raises(ValueError, match=r"one cell at each place, got two at \[\('a', 'b'\)\]"):
        TableSpec("t", "", "", (CellSpec("a", "b"), CellSpec("a", "b")))
    with pytest.raises(ValueError, match="`grid` must be one of"):
        CellSpec("a", "b", Score(1.0), Run()).configurations("some")
