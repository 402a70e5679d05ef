"""Data sets that are known by name, and where each comes from."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class KnownDataset:
    """How to get a data set and what it is for.

    Attributes:
        loader: Class of `torch_geometric.datasets`; empty for a set that is made here.
        arguments: Arguments of the loader besides ``root`` and ``split``.
        task: See `graphprism.datasets.PackedDataset`.
        metric: See `graphprism.datasets.PackedDataset`.
        node_types: See `graphprism.datasets.PackedDataset`.
        edge_types: See `graphprism.datasets.PackedDataset`.
        source: Where it comes from, in words.
    """

    loader: str
    arguments: dict[str, Any]
    task: str
    metric: str
    node_types: tuple[int, ...]
    edge_types: tuple[int, ...]
    source: str


# Columns of OGB's atoms: element, chirality, degree, charge, hydrogens, radicals, hybridisation, aromatic, in a ring.
_OGB_ATOM = (119, 5, 12, 12, 10, 6, 6, 2, 2)
# Columns of OGB's bonds: kind, stereo, conjugated.
_OGB_BOND = (5, 6, 2)
_LRGB = "Long Range Graph Benchmark, CC BY-NC 4.0"

DATASETS = MappingProxyType(
    {
        "molecules": KnownDataset("", {}, "regression", "mae", (28,), (4,), "generated, the same for the same seed"),
        "zinc12k": KnownDataset(
            "ZINC", {"subset": True}, "regression", "mae", (28,), (4,), "ZINC, the subset of 12,000 molecules"
        ),
        "zinc": KnownDataset("ZINC", {"subset": False}, "regression", "mae", (28,), (4,), "ZINC, 249,456 molecules"),
        "peptides-func": KnownDataset(
            "LRGBDataset", {"name": "Peptides-func"}, "multilabel", "ap", _OGB_ATOM, _OGB_BOND, _LRGB
        ),
        "peptides-struct": KnownDataset(
            "LRGBDataset", {"name": "Peptides-struct"}, "regression", "mae", _OGB_ATOM, _OGB_BOND, _LRGB
        ),
    }
)
