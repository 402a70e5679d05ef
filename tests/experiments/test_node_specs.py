import pytest

from graphprism.datasets import DATASETS, save
from graphprism.experiments import Settings
from graphprism.experiments.plan import plan, runs_to_do
from graphprism.experiments.runner import Reproduction
from graphprism.experiments.tables import DIRECTED, FABER, HOMOPHILIC
from graphprism.results import Score
from tests.training.node_sets import small_set

# Rows of other authors, run on four graphs and quoted on the others.
OTHERS = {
    "H2GCN", "GPR-GNN", "LINKX", "FSGNN", "ACM-GCN", "GloGNN", "Gradient Gating", "DiGCN", "MagNet", "FaberNet",
}  # fmt: skip
WIKI = {"Squirrel", "Chameleon", "Squirrel (filtered)", "Chameleon (filtered)"}


def cell(spec, row, column):
    return next(cell for cell in spec.cells if (cell.row, cell.column) == (row, column))


def test_rows_that_we_run_and_rows_that_are_quoted():
    quoted = {(each.row, each.column) for each in DIRECTED.cells if each.best is None}
    assert quoted == {(row, column) for row in OTHERS for column in set(DIRECTED.columns) - WIKI}
    assert set(DIRECTED.rows) - OTHERS == {"MLP", "GCN", "Dir-GNN", "MRS-Dir-GNN"}
    assert {each.best.dataset for spec in (DIRECTED, HOMOPHILIC) for each in spec.cells if each.best} <= set(DATASETS)
    memory = {(each.row, each.column) for each in DIRECTED.cells if each.note == "out of memory"}
    assert memory == {
        ("H2GCN", "Snap-Patents"),
        ("DiGCN", "Arxiv-Year"),
        ("DiGCN", "Snap-Patents"),
        ("MagNet", "Snap-Patents"),
    }


@pytest.mark.parametrize(
    ("spec", "row", "column", "score"),
    [
        (DIRECTED, "MLP", "Squirrel", Score(28.77, 1.56, 10)),
        (DIRECTED, "MagNet", "Arxiv-Year", Score(60.29, 0.27, 5)),
        (DIRECTED, "Dir-GNN", "Roman-Empire", Score(91.23, 0.32, 10)),
        (DIRECTED, "MRS-Dir-GNN", "Snap-Patents", Score(74.72, 0.05, 5)),
        (DIRECTED, "MRS-Dir-GNN", "Chameleon (filtered)", None),
        (HOMOPHILIC, "MRS-GCN", "CiteSeer", Score(62.8, 1.7)),
    ],
)
def test_published_scores(spec, row, column, score):
    assert cell(spec, row, column).paper == score


@pytest.mark.parametrize(
    ("spec", "row", "column", "expected"),
    [
        (DIRECTED, "Dir-GNN", "Squirrel", ("dir-gcn", 0.01, 4, 0.0, 128, 1.0, "max", True, 400)),
        (DIRECTED, "MRS-Dir-GNN", "Squirrel", ("mrs-dir-gcn", 0.001, 6, 0.0, 128, 1.0, "max", True, 400)),
        (DIRECTED, "MRS-Dir-GNN", "Chameleon", ("mrs-dir-gcn", 0.005, 6, 0.2, 128, 1.0, "max", True, 400)),
        (DIRECTED, "MRS-Dir-GNN", "Arxiv-Year", ("mrs-dir-gcn", 0.005, 5, 0.6, 256, 0.5, "cat", False, 200)),
        (DIRECTED, "MRS-Dir-GNN", "Snap-Patents", ("mrs-dir-gcn", 0.01, 6, 0.0, 32, 0.5, "max", True, 200)),
        (DIRECTED, "MRS-Dir-GNN", "Roman-Empire", ("mrs-dir-sage", 0.005, 6, 0.2, 256, 0.5, "cat", False, 200)),
        (DIRECTED, "FSGNN", "Chameleon", ("fsgnn", 0.005, 8, 0.5, 64, 0.5, None, False, 100)),
        (DIRECTED, "FSGNN", "Squirrel (filtered)", ("fsgnn", 0.01, 8, 0.5, 64, 0.5, None, False, 100)),
        (DIRECTED, "FaberNet", "Chameleon", ("fabernet", 0.005, 5, 0.0, 128, 1.0, "cat", True, 400)),
        (DIRECTED, "GloGNN", "Squirrel", ("glognn", 0.01, 3, 0.8, 64, 0.5, None, False, 200)),
        (DIRECTED, "GloGNN", "Chameleon (filtered)", ("glognn", 0.01, 3, 0.4, 64, 0.5, None, False, 300)),
        (DIRECTED, "ACM-GCN", "Squirrel", ("acm-gcn", 0.002, 2, 0.6, 64, 0.5, None, False, 200)),
        (HOMOPHILIC, "GCN", "PubMed", ("gcn", 0.01, 4, 0.6, 64, 1.0, None, False, 200)),
    ],
)
def test_hyper_parameters(spec, row, column, expected):
    run = cell(spec, row, column).best
    names = ("model", "lr", "layers", "dropout", "width", "alpha", "jk", "normalize", "patience")
    assert tuple(getattr(run, name) for name in names) == expected


def test_glognn_reads_the_adjacency_matrix_on_every_graph():
    """Its authors' script for the plain network has delta = 1 on Squirrel: features alone, an MLP's score."""
    for column in WIKI:
        options = cell(DIRECTED, "GloGNN", column).best.options.split(",")
        assert {"delta=0.0", "channel_factors=true", "orders=2"} <= set(options)


def test_both_rows_on_homophilic_graphs_have_one_recipe():
    names = ("width", "jk", "normalize", "input_dropout", "self_loops", "row_normalise", "weight_decay", "patience")
    for column in HOMOPHILIC.columns:
        plain, split = (cell(HOMOPHILIC, row, column).best for row in ("GCN", "MRS-GCN"))
        assert [getattr(plain, name) for name in names] == [getattr(split, name) for name in names]
        assert plain.input_dropout
        assert (split.start, split.decay) == ("shared", 0.0)


def test_a_mean_is_over_the_official_splits():
    (planned,) = [
        each for each in plan(DIRECTED, Settings(seeds=10)) if each.spec == cell(DIRECTED, "Dir-GNN", "Chameleon")
    ]
    assert [(run.fold, run.seed) for run in planned.configurations[0]] == [(fold, 0) for fold in range(10)]
    (planned,) = [
        each for each in plan(DIRECTED, Settings(seeds=7)) if each.spec == cell(DIRECTED, "Dir-GNN", "Arxiv-Year")
    ]
    assert [(run.fold, run.seed) for run in planned.configurations[0]][3:] == [(3, 0), (4, 0), (0, 1), (1, 1)]
    (planned,) = [each for each in plan(HOMOPHILIC, Settings(seeds=3)) if each.spec == HOMOPHILIC.cells[0]]
    assert [(run.fold, run.seed) for run in planned.configurations[0]] == [(0, 0), (0, 1), (0, 2)]


def test_number_of_runs():
    assert len(runs_to_do(plan(DIRECTED, Settings(seeds=10)))) == (4 * 7 + 10 * 4) * 10
    assert len(runs_to_do(plan(HOMOPHILIC, Settings(seeds=10, grid="full")))) == 6 * 90 * 10


def test_ablation_has_each_ingredient_alone_and_all_four():
    runs = {each.row: each.best for each in FABER.cells if each.column == "Chameleon"}
    assert runs["MRS-Dir-GNN"] == cell(DIRECTED, "MRS-Dir-GNN", "Chameleon").best
    assert [run.options for run in runs.values()][1:] == [
        "activation=relu,exponent=-0.25",
        "activation=abs,exponent=-0.5",
        "activation=relu,exponent=-0.5",
        "activation=relu,complex=true,exponent=-0.5",
        "activation=abs,complex=true,exponent=-0.25",
    ]
    assert [run.weight_decay for run in runs.values()] == [0, 0, 0, 0.1, 0, 0.1]
    assert {run.optimizer for row, run in runs.items() if row in ("+ weight decay", "+ all four")} == {"adamw"}
    assert set(FABER.columns) == WIKI


@pytest.mark.parametrize("row", sorted(OTHERS))
def test_every_baseline_is_trained(tmp_path, row):
    save(small_set(), tmp_path / "chameleon.npz")
    settings = Settings(rows=(row,), columns=("Chameleon",), seeds=1, epochs=3)
    found = Reproduction.of(DIRECTED, settings, tmp_path, tmp_path / "out").run().cell(row, "Chameleon")
    assert found.ours.count == 1
    assert found.status.value == "other-protocol"


@pytest.mark.parametrize("engine", ["auto", "eager"])
def test_a_cell_is_trained_and_written(tmp_path, engine):
    save(small_set(), tmp_path / "cora.npz")
    settings = Settings(rows=("GCN",), columns=("Cora",), seeds=2, epochs=3, engine=engine)
    table = Reproduction.of(HOMOPHILIC, settings, tmp_path, tmp_path / "out").run()
    found = table.cell("GCN", "Cora")
    assert found.ours.count == 2
    assert 0 <= found.ours.mean <= 100
    assert found.paper == Score(81.1, 0.9)
