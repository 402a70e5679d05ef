"""Which ingredient of FaberNet helps a network that splits edges?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from graphprism.experiments.spec import CellSpec, TableSpec
from graphprism.experiments.tables.directed import DIRECTED, FOLDS, WIKI
from graphprism.training import Run

_SPLIT_ROW = "MRS-Dir-GNN"
_PLAIN = {"activation": "relu", "exponent": "-0.5"}
# Differences of FaberNet from Dir-GNN, except its powers, as changes of options or fields.
_INGREDIENTS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "exponent -0.25": ({"exponent": "-0.25"}, {}),
    "absolute value": ({"activation": "abs"}, {}),
    "weight decay": ({}, {"optimizer": "adamw", "weight_decay": 0.1}),
    "complex weights": ({"complex": "true"}, {}),
}


def _runs(base: Run) -> dict[str, Run]:
    """MRS-Dir-GCN, each ingredient alone, and all at once."""
    together: dict[str, str] = {}
    fields: dict[str, Any] = {}
    runs = {_SPLIT_ROW: base}
    for name, (options, changes) in _INGREDIENTS.items():
        together, fields = {**together, **options}, {**fields, **changes}
        runs[f"+ {name}"] = _with(base, options, changes)
    return {**runs, "+ all four": _with(base, together, fields)}


def _with(base: Run, options: dict[str, str], changes: dict[str, Any]) -> Run:
    text = ",".join(f"{name}={value}" for name, value in sorted({**_PLAIN, **options}.items()))
    return replace(base, model="mrs-fabernet", options=text, **changes)


def _cells() -> tuple[CellSpec, ...]:
    bases = {cell.column: cell.best for cell in DIRECTED.cells if cell.row == _SPLIT_ROW and cell.column in WIKI}
    runs = {column: _runs(base) for column, base in bases.items() if base is not None}
    rows = next(iter(runs.values()))
    return tuple(CellSpec(row, column, best=runs[column][row]) for row in rows for column in WIKI)


FABER = TableSpec(
    name="faber",
    title="Ingredients of FaberNet on top of MRS-Dir-GCN",
    source="nothing is published for it",
    cells=_cells(),
    unit="accuracy in percent",
    larger_is_better=True,
    digits=2,
    seeds=10,
    notes=(
        "Every row is the first one with one change, at its hyper-parameters: the exponent of degrees in the "
        "normalisation, the absolute value in place of ReLU, AdamW with a weight decay of 0.1 on the layers, and "
        "complex weights, which double the channels of the last map.",
        "Higher powers of the graph, FaberNet's fifth ingredient, are left out: its authors' complex layers have none.",
    ),
    folds=FOLDS,
)
