"""Splits on top of GNN+: equal parameters and recipe."""

from dataclasses import fields, replace

import pytest
import torch

from graphprism.datasets import DATASETS, PackedDataset, molecules
from graphprism.experiments import STRONG, STRONG_VARIANTS, Reproduction, Settings
from graphprism.experiments.plan import plan, runs_to_do
from graphprism.experiments.tables.strong import BASES
from graphprism.training import Run
from graphprism.training.build_model import parameters_of, width_of
from tests.pairwise import in_turn

ZINC = molecules(40)
SPLIT_FIELDS = {"model", "split", "width", "budget"}


def as_ogb(outputs: int) -> PackedDataset:
    """The same molecules with the columns of OGB."""
    known = DATASETS["molhiv"]
    edges = torch.zeros(ZINC.edge_attr.size(0), 3, dtype=torch.uint8)
    edges[:, 0] = ZINC.edge_attr[:, 0]
    x = torch.zeros(ZINC.x.size(0), 9, dtype=torch.uint8)
    x[:, 0] = ZINC.x[:, 0]
    y = torch.zeros(len(ZINC), outputs)
    return replace(ZINC, x=x, edge_attr=edges, y=y, node_types=known.node_types, edge_types=known.edge_types)


DATA = {"zinc12k": ZINC, "peptides-func": as_ogb(10), "molhiv": as_ogb(1)}


def parameters(run: Run) -> int:
    return parameters_of(run, DATA[run.dataset], width_of(run, DATA[run.dataset]))


def run_at(spec, row, column):
    return next(each.best for each in spec.cells if (each.row, each.column) == (row, column))


def changed(first: Run, second: Run) -> set[str]:
    return {each.name for each in fields(Run) if getattr(first, each.name) != getattr(second, each.name)}


@in_turn(base=[*BASES], column=STRONG.columns)
def test_splits_have_the_recipe_and_the_parameters_of_the_plain_network(base, column):
    plain = run_at(STRONG, base, column)
    budget = parameters(plain)
    for split in ("degree", "degree x bond"):
        run = run_at(STRONG, f"MRS-{base} ({split})", column)
        assert changed(plain, run) <= SPLIT_FIELDS
        assert run.budget == budget
        assert 0.9 * budget < parameters(run) <= budget  # a width more would be too many
        assert run.width is None


def test_anchors_are_those_quoted():
    papers = {(each.row, each.column): each.paper.mean for each in STRONG.cells if each.paper}
    assert papers == {
        ("GCN+", "ZINC12k (MAE)"): 0.076, ("GIN+", "ZINC12k (MAE)"): 0.065, ("GCN+", "Peptides-func (AP)"): 0.726,
    }  # fmt: skip
    assert "quoted" in STRONG.source


@pytest.mark.parametrize("base", BASES)
def test_variants_share_rows_with_the_table_and_change_what_they_say(base):
    column = f"{base} (MAE)"
    rows = {"plain": base, "degree": f"MRS-{base} (degree)", "degree x bond": f"MRS-{base} (degree x bond)"}
    for row, other in rows.items():
        assert run_at(STRONG_VARIANTS, row, column) == run_at(STRONG, other, "ZINC12k (MAE)")
    plain = run_at(STRONG_VARIANTS, "plain", column)
    expected = {
        "degree: apart": {"start"}, "degree: free": {"decay"}, "degree: decay 10": {"decay"},
        "degree: early layers": {"split_layers"}, "degree: late layers": {"split_layers"},
        "degree x bond: early layers": {"split_layers"}, "degree x bond: late layers": {"split_layers"},
        "degree: width of plain": set(),
        "no feed-forward: plain": {"ffn"}, "no feed-forward: degree": {"ffn"},
        "no feed-forward: degree x bond": {"ffn"},
        "500k: plain": set(), "500k: degree": set(), "500k: degree x bond": set(),
    }  # fmt: skip
    assert set(STRONG_VARIANTS.rows) == {*rows, *expected}
    for row, names in expected.items():
        run = run_at(STRONG_VARIANTS, row, column)
        assert changed(plain, run) - SPLIT_FIELDS == names
        if base == "GCN+" and row in ("no feed-forward: degree x bond", "500k: degree"):  # a search takes a second
            most = 500_000 if row.startswith("500k") else parameters(plain)
            assert 0.9 * most < parameters(run) <= most


def test_number_of_runs():
    assert len(runs_to_do(plan(STRONG, Settings(seeds=STRONG.seeds)))) == 27 * 4
    both = [*runs_to_do(plan(STRONG, Settings(seeds=4))), *runs_to_do(plan(STRONG_VARIANTS, Settings(seeds=4)))]
    assert len({run.key for run in both}) == (27 + 14 * 3) * 4


def test_a_cell_is_run_and_goes_on(tmp_path, monkeypatch):
    spec = replace(STRONG, cells=tuple(
        replace(each, best=replace(each.best, dataset="molecules", epochs=1, layers=2, width=32))
        for each in STRONG.cells if each.column == "ZINC12k (MAE)" and "GIN" not in each.row
    ))  # fmt: skip
    monkeypatch.setattr("graphprism.experiments.plan.load", lambda *_: ZINC)
    settings = Settings(seeds=1, rows=("GCN+", "MRS-GatedGCN+ (degree x bond)"))
    table = Reproduction.of(spec, settings, tmp_path, tmp_path / "out").run()
    done = {each.row for each in table.cells if each.ours}
    assert done == set(settings.rows)
    again = Reproduction.of(spec, settings, tmp_path, tmp_path / "out").estimate()
    assert (again.runs, again.finished) == (2, 2)
