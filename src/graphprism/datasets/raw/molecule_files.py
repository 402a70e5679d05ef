"""Molecules in the files of ZINC and of the Long Range Graph Benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphprism.datasets.packed_file import DatasetFileError
from graphprism.datasets.raw.torch_file import read_pickle, read_torch_file
from graphprism.packed import Array

_ZINC = ("atom_type", "bond_type", "logP_SA_cycle_normalized")


def zinc(folder: Path, split: str, *, subset: bool) -> list[Data]:
    """Reads ``SPLIT.pickle``, a list of molecules, of which those in ``SPLIT.index`` are the subset.

    The file is a pickle; nothing in it is executed.

    Raises:
        DatasetFileError: A file is damaged, or holds anything but molecules.
    """
    path = folder / f"{split}.pickle"
    try:
        found = read_pickle(path)
        if not isinstance(found, list) or not found:
            raise ValueError("it must hold a list of molecules")
        chosen = _index(folder / f"{split}.index", len(found)) if subset else range(len(found))
        return [_zinc_molecule(found[number]) for number in chosen]
    except DatasetFileError:
        raise
    except ValueError as error:
        raise DatasetFileError(path, str(error)) from error


def _index(path: Path, stop: int) -> list[int]:
    try:
        numbers = [int(word) for word in path.read_text("ascii").replace(",", " ").split()]
    except ValueError as error:
        raise DatasetFileError(path, f"it must hold numbers of molecules ({error})") from error
    if not numbers or not all(0 <= number < stop for number in numbers) or len(set(numbers)) < len(numbers):
        raise DatasetFileError(path, f"it must hold numbers of molecules in [0, {stop}), each once")
    return numbers


def _zinc_molecule(molecule: Any) -> Data:
    """Atoms (N,), a matrix of bonds (N, N) with 0 for none, and one target."""
    if not isinstance(molecule, dict) or not all(isinstance(molecule.get(key), np.ndarray) for key in _ZINC):
        raise ValueError(f"a molecule must hold {', '.join(_ZINC)}")
    atoms, bonds, target = (molecule[key] for key in _ZINC)
    if atoms.ndim != 1 or bonds.shape != (atoms.size, atoms.size) or target.size != 1:
        raise ValueError("a molecule must have one row and one column of bonds per atom, and one target")
    edge_index = np.stack(np.nonzero(bonds))
    return Data(
        x=_tensor(atoms, np.int64)[:, None],
        edge_index=torch.from_numpy(edge_index),
        edge_attr=_tensor(bonds[edge_index[0], edge_index[1]], np.int64),
        y=_tensor(target, np.float32).view(1),
    )


def peptides(folder: Path, split: str) -> list[Data]:
    """Reads ``SPLIT.pt``, a list of (atoms, bonds, edges, targets); nothing in the file is executed.

    Raises:
        DatasetFileError: The file is damaged, or holds anything but molecules.
    """
    path = folder / f"{split}.pt"
    try:
        found = read_torch_file(path)
        if not isinstance(found, list) or not found:
            raise ValueError("it must hold a list of molecules")
        return [_peptide(molecule) for molecule in found]
    except ValueError as error:
        raise DatasetFileError(path, str(error)) from error


def _peptide(molecule: Any) -> Data:
    arrays = isinstance(molecule, tuple | list) and all(isinstance(part, np.ndarray) for part in molecule)
    if not arrays or [part.ndim for part in molecule] != [2, 2, 2, 2] or len(molecule[2]) != 2:
        raise ValueError("a molecule must hold atoms [N, F], bonds [E, D], edges [2, E] and targets [1, T]")
    atoms, bonds, edges, targets = molecule
    return Data(
        x=_tensor(atoms, np.int64),
        edge_index=_tensor(edges, np.int64),
        edge_attr=_tensor(bonds, np.int64),
        y=_tensor(targets, np.float32),
    )


def _tensor(array: Array, dtype: type[np.generic]) -> Tensor:
    """A tensor with its own memory: the array is a view of the file's bytes."""
    if np.issubdtype(dtype, np.integer) and array.dtype.kind not in "biu":
        raise ValueError(f"atoms and bonds must be whole numbers, got {array.dtype}")
    return torch.from_numpy(array.astype(dtype))
