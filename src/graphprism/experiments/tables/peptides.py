"""The table on Peptides-func and Peptides-struct."""

from __future__ import annotations

from dataclasses import replace

from graphprism.experiments.spec import CellSpec, TableSpec
from graphprism.experiments.tables.zinc import AS_AUTHORS
from graphprism.results import Score
from graphprism.training import Run

_GRID = {"lr": (0.005, 0.001, 0.0005), "layers": (1, 2, 4, 8, 16, 32)}
_PROTOCOL = Run(batch_size=200, node_encoder="atoms", start="independent")
_FUNC, _STRUCT = "peptides-func", "peptides-struct"
# The text gives no number of epochs and the authors' configurations 250, but the curves that they publish for Func have
# 500, and the means of their smallest losses are the printed ones.
_EPOCHS = {_FUNC: 500, _STRUCT: 250}
# Column, data set and a name of `READINGS`.
_COLUMNS = (
    ("Func train (CE)", _FUNC, "train-loss"),
    ("Func train (AP)", _FUNC, "train-score"),
    ("Func test (AP)", _FUNC, "test"),
    ("Struct train (MAE)", _STRUCT, "train-loss"),
    ("Struct test (MAE)", _STRUCT, "test"),
)
# Row, model, and for each column the published mean, its deviation, the learning rate and the layers.
_ROWS = (
    ("GCN", "gcn", ((0.033, 0.023, 0.005, 4), (0.989, 0.004, 0.005, 4), (0.574, 0.005, 0.001, 8),
                    (0.146, 0.032, 0.005, 8), (0.303, 0.009, 0.0005, 32))),
    ("MRS-GCN", "mrs-gcn", ((0.003, 0.000, 0.005, 16), (0.999, 0.000, 0.005, 16), (0.588, 0.011, 0.001, 16),
                            (0.052, 0.004, 0.005, 8), (0.301, 0.007, 0.001, 32))),
    ("SAGE", "sage", ((0.011, 0.004, 0.001, 16), (0.999, 0.000, 0.001, 16), (0.566, 0.011, 0.001, 8),
                      (0.168, 0.004, 0.005, 8), (0.317, 0.0001, 0.0005, 16))),
    ("MRS-SAGE", "mrs-sage", ((0.002, 0.000, 0.001, 16), (0.999, 0.000, 0.001, 16), (0.615, 0.008, 0.001, 16),
                              (0.055, 0.004, 0.005, 8), (0.293, 0.000, 0.0005, 32))),
    ("GIN", "gin", ((0.031, 0.021, 0.0001, 8), (0.980, 0.021, 0.0001, 8), (0.553, 0.016, 0.001, 8),
                    (0.228, 0.012, 0.001, 8), (0.307, 0.001, 0.0005, 16))),
    ("MRS-GIN", "mrs-gin", ((0.007, 0.002, 0.001, 8), (0.999, 0.000, 0.001, 8), (0.576, 0.007, 0.0005, 16),
                            (0.149, 0.013, 0.001, 8), (0.301, 0.002, 0.0005, 32))),
)  # fmt: skip


def _cells() -> tuple[CellSpec, ...]:
    cells = []
    for row, model, numbers in _ROWS:
        for (column, dataset, reading), (mean, deviation, lr, layers) in zip(_COLUMNS, numbers, strict=True):
            run = replace(_PROTOCOL, dataset=dataset, model=model, lr=lr, layers=layers, epochs=_EPOCHS[dataset])
            run = replace(run, **AS_AUTHORS.get(model, {}))
            cells.append(CellSpec(row, column, Score(mean, deviation, 3), run, _GRID, reading))
    return tuple(cells)


PEPTIDES = TableSpec(
    name="peptides",
    title="Peptides-func and Peptides-struct",
    source="tab:peptides_func (appendix), hyper-parameters of tab:func_hyper",
    cells=_cells(),
    unit="CE, AP or MAE",
    larger_is_better=None,
    notes=(
        "Larger is better for AP, smaller for CE and MAE. The paper heads the first column MAE; its text says that "
        "cross-entropy is what Func is trained with.",
        "Func trains for 500 epochs: the authors' configurations say 250, and the text nothing, but the five curves "
        "that they publish for each of GCN, SAGE and their MRS forms have 500 epochs, and the means of their smallest "
        "losses (0.0331, 0.0115, 0.0027, 0.0025) are the printed numbers; within the first 250 epochs those means are "
        "0.085, 0.085, 0.018 and 0.021. Of Struct no curves are published; it keeps 250.",
        "Each column has its own hyper-parameters, as in the paper; GIN's published learning rate of 0.0001 is not in "
        "the published grid (0.005, 0.001, 0.0005), and the full grid has it where it is published.",
        "As in the authors' code, and not in the text, tables of node types and the matrices of MRS-SAGE start with "
        "Glorot's distribution; the matrices of SAGE start as PyG's.",
    ),
)
