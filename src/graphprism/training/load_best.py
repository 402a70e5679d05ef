"""The trained network of a run."""

from __future__ import annotations

from pathlib import Path

from graphprism.datasets import PackedDataset
from graphprism.nn import MRSGNN
from graphprism.training.build_model import build_model
from graphprism.training.checkpoint import load_parts
from graphprism.training.data_identity import data_identity
from graphprism.training.run import Run


def load_best(folder: str | Path, run: Run, dataset: PackedDataset) -> MRSGNN:
    """The network with the weights of the best validation score so far, on the CPU, ready to predict.

    Args:
        folder: What `train` was given.
        run: The run that was trained.
        dataset: Its data.

    Raises:
        FileNotFoundError: The run has kept nothing there.
        CheckpointError: The file is damaged or belongs to other data.
    """
    path = Path(folder) / run.key / "best.pt"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file; `train` writes it when it is given this folder")
    parts = load_parts(path, run, data_identity(dataset))
    network = build_model(run, dataset)
    if run.precision == "float64":
        network = network.double()
    network.load_state_dict(parts["model"])
    return network.eval()
