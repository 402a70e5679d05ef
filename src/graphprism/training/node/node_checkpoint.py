"""The state of an unfinished run on nodes, in a file."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch

from graphprism._files import write_whole
from graphprism.training.node.node_run import NodeRun


def save_node_checkpoint(path: Path, run: NodeRun, state: dict[str, Any]) -> None:
    """Writes the state whole or not at all; whoever is interrupted leaves the one before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    torch.save({"run": run.to_dict(), **state}, content)
    write_whole(path, content.getvalue())


def load_node_checkpoint(path: Path, run: NodeRun, device: torch.device) -> dict[str, Any] | None:
    """Reads the state back without executing what is in the file; None where there is none.

    Raises:
        ValueError: The file is damaged or belongs to another run.
    """
    if not path.is_file():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
        told = state["run"]
    except (OSError, RuntimeError, EOFError, KeyError, TypeError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a checkpoint that can be read; delete it to train from the start") from error
    if {**NodeRun().to_dict(), **told} != run.to_dict():  # fields that came later have their defaults
        raise ValueError(f"{path} belongs to another run; delete it to train from the start")
    return state
