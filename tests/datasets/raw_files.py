"""A few molecules in the raw files that PyG's loaders download, so that the loaders themselves run offline."""

import pickle
from pathlib import Path

import torch

SIZES = {"train": 3, "val": 2, "test": 1}


def write_zinc(folder: Path) -> None:
    """ZINC: a list of molecules per split, and the numbers of those in the subset, which is all but the first.

    The first of all has one atom and no bond.
    """
    raw = folder / "pyg" / "ZINC" / "raw"
    raw.mkdir(parents=True)
    for number, (split, size) in enumerate(SIZES.items()):
        graphs = [chain(1 + number + at) for at in range(size + 1)]
        (raw / f"{split}.pickle").write_bytes(pickle.dumps(graphs))
        (raw / f"{split}.index").write_text(",".join(map(str, range(1, size + 1))) + "\n")


def chain(length: int) -> dict[str, torch.Tensor]:
    bonds = torch.diag(torch.arange(length - 1) % 3 + 1, diagonal=1)
    return {
        "atom_type": torch.arange(length) % 28,
        "bond_type": bonds + bonds.t(),
        "logP_SA_cycle_normalized": torch.tensor([length / 8]),
    }


def write_peptides(folder: Path, name: str, num_targets: int) -> None:
    """LRGB: a list of (x, edge_attr, edge_index, y) per split."""
    raw = folder / "pyg" / "LRGBDataset" / name / "raw"
    raw.mkdir(parents=True)
    for split, size in SIZES.items():
        y = torch.ones(1, num_targets)
        atoms, bonds = torch.ones(2, 9, dtype=torch.long), torch.ones(2, 3, dtype=torch.long)
        torch.save([(atoms, bonds, torch.tensor([[0, 1], [1, 0]]), y)] * size, raw / f"{split}.pt")
