"""The table of remedies on tiny data, and the numbers of its states."""

import json
import math
from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules, save
from graphprism.experiments.tables import remedies
from graphprism.experiments.tables.remedies import (
    COLUMNS,
    LAYERS,
    REMEDIES_TABLE,
    measure_states,
    plot_remedies,
    remedies_spec,
)
from graphprism.results import Cell, Score, TableResult
from graphprism.training import Run, build_model
from graphprism.training.build_model import parameters_of, width_of
from graphprism.training.task import Task
from tests.training.node_sets import small_set

NAMES = [
    "none", "residual", "residual + BN", "GCNII", "PairNorm", "DropEdge", "JK", "FAGCN", "A-DGN", "G2", "LMGC",
    "MRS", "MRS + residual + BN", "MRS + G2",
]  # fmt: skip


class Silent:
    def advance(self, title): ...
    def epoch(self, report): ...
    def say(self, line): ...


def options(**changes):
    return {**{each.name: each.default for each in REMEDIES_TABLE.options}, **changes}


@pytest.mark.parametrize("level", ["graph", "node"])
def test_table_has_all_remedies_and_depths(level):
    spec = remedies_spec("zinc12k" if level == "graph" else "cora", level)
    assert list(spec.rows) == [f"{n} {k}" for n in NAMES for k in LAYERS]
    assert spec.columns == tuple(COLUMNS)
    assert {cell.best.epochs for cell in spec.cells} == {80 if level == "graph" else 200}


@pytest.mark.parametrize("level", ["graph", "node"])
def test_rows_have_the_same_number_of_parameters(level):
    dataset = molecules(20) if level == "graph" else small_set()
    spec = remedies_spec(dataset.name, level)
    for cell in spec.cells[:: len(COLUMNS)]:
        run = cell.best
        if run.layers > 2:
            continue
        Task.of(dataset).check(run)
        width = width_of(run, dataset)
        if run.remedy == "fagcn":
            assert width == width_of(replace(run, remedy=None), dataset)
            continue
        assert parameters_of(run, dataset, width) <= 500_000 < parameters_of(run, dataset, width + 1)


@pytest.mark.parametrize(
    ("dataset", "metric"), [pytest.param("zinc12k", "mae", marks=pytest.mark.slow), ("cora", "accuracy")]
)
def test_every_remedy_is_trained_and_measured(tmp_path, monkeypatch, dataset, metric):
    for name in ("_ON_GRAPHS", "_ON_NODES"):  # as small as the data
        monkeypatch.setattr(remedies, name, replace(getattr(remedies, name), budget=1000))
    data = molecules(40) if dataset == "zinc12k" else small_set()
    save(replace(data, name=dataset), tmp_path / f"{dataset}.npz")
    # on graphs a run has its own Fabric: those that look at the graphs of a batch, or are no network of `GNN`
    names = NAMES if dataset == "cora" else ["PairNorm", "DropEdge", "LMGC", "MRS"]
    rows = [f"{name} 2" for name in names]
    chosen = options(dataset=dataset, rows=",".join(rows), seeds=1, epochs=2)
    job = REMEDIES_TABLE.prepare(chosen, tmp_path, tmp_path / "out")
    output = job.run(Silent())
    table = TableResult.from_json((tmp_path / "out" / "tables" / f"remedies-{dataset}-2-epochs.json").read_text())
    for row in rows:
        values = {column: table.cell(row, column).ours.mean for column in COLUMNS}
        assert all(map(math.isfinite, values.values())), (row, values)
        assert values["effective rank"] >= 1
        assert 0 <= values["rank-one distance"] < 2
    assert [path.suffix for path in output.files] == [".json", ".png", ".svg"]
    ledger = [json.loads(line) for line in (tmp_path / "out" / "ledger.jsonl").read_text().splitlines()]
    assert len(ledger) == len(rows)
    assert {line["metric"] for line in ledger} == {metric}


def test_states_are_those_after_the_last_layer():
    dataset = small_set()
    run = Run("small", "gcn", layers=2, width=4, encode=True, jk="cat", batch_size=None, precision="float64")
    network = build_model(run, dataset).double()
    torch.nn.init.zeros_(network.convs[1].lin.weight)
    with torch.no_grad():  # every node gets the same row, that of the bias
        network.convs[1].bias.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    found = measure_states(network, run, dataset)
    assert found["effective_rank"] == pytest.approx(1)
    assert found["rank_one_distance"] == pytest.approx(0, abs=1e-9)
    assert found["gradient_last"] > 0


def test_picture_of_an_empty_table_can_be_drawn():
    spec = remedies_spec("cora", "node")
    table = TableResult("remedies-cora", spec.title, "", spec.rows, spec.columns, ())
    assert len(plot_remedies(table, {}).axes) == 4


def test_picture_has_plain_numbers_and_says_why_lines_end():
    spec = remedies_spec("cora", "node")
    scores = {"effective rank": (100.0, 8.0), "rank-one distance": (1.5, 0.4), "score": (80.0, 30.0)}
    cells = [
        Cell(f"none {layers}", column, Score(value, 0.1, 3))
        for column, values in scores.items()
        for layers, value in zip((2, 8), values, strict=True)
    ]
    cells.append(Cell("none 32", "score"))
    figure = plot_remedies(TableResult("remedies-cora", spec.title, "", spec.rows, spec.columns, tuple(cells)), {})
    rank, distance = figure.axes[1:3]
    assert [label.get_text() for label in rank.get_yticklabels()] == ["10", "30", "100"]
    assert (distance.get_yscale(), distance.get_ylim()[0]) == ("linear", 0)
    assert "a line ends where runs diverge or are missing" in figure.get_suptitle()


def test_network_that_exploded_does_not_hide_the_others():
    spec = remedies_spec("zinc12k", "graph")
    scores = {"rank-one distance": (1.5, 1e-16, 1e-2), "score": (0.5, 2e22, 0.4)}
    cells = tuple(
        Cell(f"none {layers}", column, Score(value, 0.1, 3))
        for column, values in scores.items()
        for layers, value in zip((2, 8, 32), values, strict=True)
    )
    figure = plot_remedies(TableResult(spec.name, spec.title, "", spec.rows, spec.columns, cells), {})
    score, _, distance, _ = figure.axes
    assert score.get_title() == "test score (1 outside)"
    assert 0.3 < score.get_ylim()[0] < 0.4 < 0.5 < score.get_ylim()[1] < 0.6
    assert distance.get_title() == "rank-one distance (1 outside)"
    assert 1e-3 < distance.get_ylim()[0] < 1e-2
