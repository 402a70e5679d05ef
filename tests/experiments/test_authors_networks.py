"""What the authors' networks do and the text does not say, in the runs and the notes of the tables."""

import math

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.experiments import DIRECTED, PEPTIDES, TRAINING_LOSS, ZINC, Settings
from graphprism.experiments.plan import plan
from graphprism.experiments.table import make_table
from graphprism.experiments.tables.directed import FOLDS
from graphprism.nn import CONVOLUTIONS
from graphprism.nn.conv import MRSSAGEConv
from graphprism.training import Run, build_model
from tests.experiments.results_zoo import make_result


def bound(matrix):
    """Largest magnitude of a uniform distribution, from its deviation."""
    return float(matrix.detach().std()) * math.sqrt(3)


@pytest.mark.parametrize("spec", [ZINC, TRAINING_LOSS], ids=lambda spec: spec.name)
def test_gated_gcn_adds_edge_states_in_the_tables(spec):
    for cell in spec.cells:
        assert cell.best.edge_residual == ("GatedGCN" in cell.row)
    assert any("the state of an edge before a layer" in note for note in spec.notes)


@pytest.mark.parametrize("spec", [ZINC, TRAINING_LOSS, PEPTIDES, DIRECTED], ids=lambda spec: spec.name)
def test_mrs_sage_starts_with_glorot_in_the_tables(spec):
    for cell in spec.cells:
        if cell.best is not None:
            assert (cell.best.weight_init == "glorot") == cell.best.model.endswith(("mrs-sage", "mrs-dir-sage"))
    assert any("MRS-SAGE" in note or "MRS-Dir-SAGE" in note for note in spec.notes if "Glorot" in note)


@pytest.mark.parametrize(("model", "relations"), [("mrs-sage", 3), ("sage", 1)])
def test_sage_of_a_run_starts_with_glorot(model, relations):
    width = 300
    for init, expected in ((None, 1 / math.sqrt(width)), ("glorot", math.sqrt(6 / (2 * width)))):
        conv = build_model(Run(model=model, layers=1, width=width, weight_init=init), molecules(10)).convs[0]
        assert conv.lin().shape == (relations, width, width)
        assert bound(conv.lin()) == pytest.approx(expected, rel=0.01)
        assert bound(conv.lin_root.weight) == pytest.approx(expected, rel=0.01)
        assert conv.bias.abs().max() <= 1 / math.sqrt(width)


def test_sage_rejects_unknown_starts():
    with pytest.raises(ValueError, match='`init` must be "kaiming_uniform" or "glorot", got \'zeros\''):
        MRSSAGEConv(4, 4, init="zeros")
    with pytest.raises(ValueError, match=r"`weight_init` must be one of \[None, 'glorot'\], got 'zeros'"):
        Run(weight_init="zeros")


def test_mrs_dir_sage_starts_its_own_matrix_as_torch_does():
    conv = CONVOLUTIONS["mrs-dir-sage"].make(300, 300, weight_init="glorot", decay=0.0)
    for one in (conv.conv_in, conv.conv_out):
        assert bound(one.lin()[0]) == pytest.approx(0.1, rel=0.02)
        assert torch.equal(one.lin()[0], one.lin()[2])
    assert bound(conv.lin_root.weight) == pytest.approx(1 / math.sqrt(300), rel=0.02)


def test_peptides_tables_of_types_start_with_glorot():
    assert {cell.best.node_encoder for cell in PEPTIDES.cells} == {"atoms"}
    assert any("tables of node types" in note for note in PEPTIDES.notes)


def test_directed_grid_has_jumping_knowledge():
    for cell in DIRECTED.cells:
        if cell.best is not None and cell.row in ("MLP", "GCN", "Dir-GNN", "MRS-Dir-GNN"):
            assert cell.grid["jk"] == ("cat", "max")
            assert len(cell.configurations("full")) == 4 * 3 * 2 * 4
    assert any("jk" in note for note in DIRECTED.notes)


def test_directed_table_has_five_splits_of_the_large_sets():
    assert {name for name, count in FOLDS.items() if count == 5} == {"arxiv-year", "snap-patents"}
    for cell in DIRECTED.cells:
        if cell.paper is not None:
            assert cell.paper.count == (5 if cell.column in ("Arxiv-Year", "Snap-Patents") else 10)
    assert any("five for Arxiv-Year and Snap-Patents, ten for the others" in note for note in DIRECTED.notes)


def test_note_of_the_best_configuration_says_jk():
    settings = Settings(seeds=1, grid="full")
    cells = [each for each in plan(DIRECTED, settings) if (each.spec.row, each.spec.column) == ("Dir-GNN", "Squirrel")]
    results = {runs[0].key: make_result(runs[0]) for runs in cells[0].configurations[:2]}
    table = make_table(DIRECTED, settings, cells, results)
    assert "jk max, " in table.cell("Dir-GNN", "Squirrel").note
