"""Table 1: which ordering to split by."""

from __future__ import annotations

from dataclasses import replace

from graphprism.experiments.spec import CellSpec, TableSpec
from graphprism.results import Score
from graphprism.training import Run

_GRID = {"lr": (0.003, 0.001, 0.0003), "layers": (1, 2, 4, 8, 16, 32)}
_GCN = Run("zinc12k", "gcn", start="independent")
_RANDOM, _FEATURES, _PPR, _DEGREE = (
    Run("zinc12k", split=order, start="independent") for order in ("random", "features", "ppr", "degree")
)
_STEP, _TRAIN, _TEST = "Step (ms)", "Train (MAE)", "Test (MAE)"

# Row, run, published step time, train and test, and the learning rate and layers of train and of test.
_ROWS = (
    ("GCN", _GCN, (4.3, 0.1), (0.051, 0.002), (0.404, 0.011), (0.001, 8), (0.0003, 8)),
    ("MRS-GCN (random)", _RANDOM, (5.7, 0.1), (0.006, 0.001), (0.623, 0.003), (0.001, 8), (0.003, 16)),
    ("MRS-GCN (features)", _FEATURES, (5.8, 0.4), (0.011, 0.003), (0.390, 0.004), (0.001, 8), (0.001, 8)),
    ("MRS-GCN (PPR)", _PPR, (6.8, 0.4), (0.010, 0.002), (0.358, 0.006), (0.001, 8), (0.001, 8)),
    ("MRS-GCN (degree)", _DEGREE, (5.8, 0.2), (0.003, 0.001), (0.318, 0.031), (0.0003, 8), (0.0003, 8)),
)
_DEVIATION = "published with a deviation of 0.003 in the depth table"


def _cells(width: int | None) -> tuple[CellSpec, ...]:
    cells = []
    for row, model, step, train, test, (train_lr, train_layers), (test_lr, test_layers) in _ROWS:
        best_train = replace(model, lr=train_lr, layers=train_layers, width=width)
        best_test = replace(model, lr=test_lr, layers=test_layers, width=width)
        # Step times are of eight layers, also if another depth scored best.
        cells += [
            CellSpec(row, _STEP, Score(*step, 3), best_train, {}, "step-ms"),
            CellSpec(row, _TRAIN, Score(*train, 3), best_train, _GRID, "train-loss"),
            CellSpec(
                row, _TEST, Score(*test, 3), best_test, _GRID, note=_DEVIATION if row.endswith("(degree)") else ""
            ),
        ]
    return tuple(cells)


_SOURCE = "Table 1 (tab:ordering), hyper-parameters of tab:ordering_hyper"
_TIMES = (
    "Published step times are those of one run alone on an H100, which orders, splits and normalises once in every "
    "step; ours order and split before training, and those of runs in lockstep are a share of one step for all of them."
)

ORDERINGS_TABLE = TableSpec(
    name="orderings",
    title="Orderings on ZINC12k, at most 500,000 parameters",
    source=_SOURCE,
    cells=_cells(None),
    notes=(
        "The text says width 64, but the published rows are those of the depth table, whose models fill 500,000 "
        "parameters; orderings-64 is the other reading.",
        _TIMES,
    ),
)
ORDERINGS_64 = TableSpec(
    name="orderings-64",
    title="Orderings on ZINC12k, width 64",
    source=_SOURCE,
    cells=_cells(64),
    notes=("Width 64 as the text says; the published rows are those of models with 500,000 parameters.", _TIMES),
)
