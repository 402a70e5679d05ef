"""A table of a few short runs on a few molecules, and its data set."""

from pathlib import Path

from graphprism.datasets import molecules, save
from graphprism.experiments import CellSpec, TableSpec
from graphprism.results import Score
from graphprism.training import Run

_GCN = Run("tiny", "gcn", layers=1, width=8, epochs=4, warmup=1, lr=0.01)
_MRS = Run("tiny", "mrs-gcn", layers=1, width=8, epochs=4, warmup=1, lr=0.01)
_GRID = {"lr": (0.01, 0.001), "layers": (1, 2)}

TINY = TableSpec(
    name="tiny",
    title="A small table",
    source="nowhere",
    cells=(
        CellSpec("GCN", "Train", Score(0.5, 0.1, 3), _GCN, _GRID, "train-loss"),
        CellSpec("GCN", "Test", Score(0.7, 0.1, 3), _GCN, _GRID),
        CellSpec("MRS-GCN", "Train", Score(0.4, 0.1, 3), _MRS, _GRID, "train-loss"),
        CellSpec("MRS-GCN", "Test", Score(0.6, 0.1, 3), _MRS, _GRID),
        CellSpec("Others", "Test", Score(0.9)),
    ),
    unit="MAE",
)


def save_tiny(folder: Path, graphs: int = 48) -> Path:
    """Packs the data set that the runs are on, and gives the folder."""
    save(molecules(graphs), folder / "tiny.npz")
    return folder
