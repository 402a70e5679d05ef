"""Data sets known by name: their sources, tasks and location. Needs no torch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class KnownDataset:
    """Source and task of a data set.

    Attributes:
        loader: Class of `torch_geometric.datasets` that downloads its raw files, which `from_pyg` then reads. Empty
            for a set that is generated or comes from raw files.
        arguments: Arguments of the loader besides ``root`` and, for a set of graphs, ``split``.
        task: See `graphprism.datasets.PackedDataset`.
        metric: See `graphprism.datasets.PackedDataset`.
        node_types: See `graphprism.datasets.PackedDataset`.
        edge_types: See `graphprism.datasets.PackedDataset`.
        source: Description of its origin.
        level: See `graphprism.datasets.PackedDataset`.
        directed: See `graphprism.datasets.PackedDataset`.
        num_classes: See `graphprism.datasets.PackedDataset`.
        readout: Readout of the paper's networks: ``"sum"`` or ``"mean"``.
        files: Raw files that `graphprism.datasets.from_raw` reads; empty for other sets.
        address: URL of those files or, for a set that is only read from a packed file, of its graphs.
    """

    loader: str
    arguments: dict[str, Any]
    task: str
    metric: str
    node_types: tuple[int, ...]
    edge_types: tuple[int, ...]
    source: str
    level: str = "graph"
    directed: bool = False
    num_classes: int = 0
    readout: str = "sum"
    files: tuple[str, ...] = ()
    address: str = ""


def _nodes(
    source: str,
    num_classes: int,
    loader: str = "",
    *,
    directed: bool = True,
    files: tuple[str, ...] = (),
    address: str = "",
    **arguments: str,
) -> KnownDataset:
    """A graph with classes of nodes."""
    return KnownDataset(
        loader,
        arguments,
        "multiclass",
        "accuracy",
        (),
        (),
        source,
        level="node",
        directed=directed,
        num_classes=num_classes,
        files=files,
        address=address,
    )


# Columns of OGB's atoms: element, chirality, degree, charge, hydrogens, radicals, hybridisation, aromatic, in a ring.
_OGB_ATOM = (119, 5, 12, 12, 10, 6, 6, 2, 2)
# Columns of OGB's bonds: kind, stereo, conjugated.
_OGB_BOND = (5, 6, 2)
_LRGB = "Long Range Graph Benchmark, CC BY-NC 4.0"
_GEOM = "Wikipedia links, directed, 10 splits of Geom-GCN; holds duplicated nodes"
_FILTERED = "without duplicated nodes, directed, 10 splits (Platonov et al.)"
_PLANETOID = "citations, undirected, the public split (Planetoid)"
_YANDEX = "https://github.com/yandex-research/heterophilous-graphs/tree/main/data"
_DIRECTED_ROMAN = "https://drive.google.com/uc?id=1atonwA1YqKMV3xWS7T04dRgfmDrsyRj8"
_OGB_ARXIV = (
    "http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip (folder raw) and, the splits, at "
    "https://github.com/CUAI/Non-Homophily-Large-Scale/tree/master/data/splits"
)
_PATENTS = (
    "https://drive.google.com/uc?id=1ldh23TSY1PwXia6dU0MYcpyEgX-w3Hia and, the splits, at "
    "https://drive.google.com/uc?id=12xbBRqd8mtG_XkNLH8dRRNZJvVM4Pw-N"
)

DATASETS = MappingProxyType(
    {
        "molecules": KnownDataset("", {}, "regression", "mae", (28,), (4,), "generated, the same for the same seed"),
        "zinc12k": KnownDataset(
            "ZINC", {"subset": True}, "regression", "mae", (28,), (4,), "ZINC, the subset of 12,000 molecules"
        ),
        "zinc": KnownDataset("ZINC", {"subset": False}, "regression", "mae", (28,), (4,), "ZINC, 249,456 molecules"),
        "peptides-func": KnownDataset(
            "LRGBDataset", {"name": "Peptides-func"}, "multilabel", "ap", _OGB_ATOM, _OGB_BOND, _LRGB, readout="mean"
        ),
        "peptides-struct": KnownDataset(
            "LRGBDataset", {"name": "Peptides-struct"}, "regression", "mae", _OGB_ATOM, _OGB_BOND, _LRGB, readout="mean"
        ),
        "molhiv": KnownDataset(
            "",
            {},
            "binary",
            "auroc",
            _OGB_ATOM,
            _OGB_BOND,
            "ogbg-molhiv, molecules that inhibit HIV or not, scaffold split (OGB, MIT)",
            readout="mean",
            address="https://ogb.stanford.edu/docs/graphprop/",
        ),
        "chameleon": _nodes(_GEOM, 5, "WikipediaNetwork", name="chameleon"),
        "squirrel": _nodes(_GEOM, 5, "WikipediaNetwork", name="squirrel"),
        "chameleon-filtered": _nodes(
            f"Chameleon {_FILTERED}", 5, files=("chameleon_filtered_directed.npz",), address=_YANDEX
        ),
        "squirrel-filtered": _nodes(
            f"Squirrel {_FILTERED}", 5, files=("squirrel_filtered_directed.npz",), address=_YANDEX
        ),
        "roman-empire": _nodes(
            "words of an article, directed, 10 splits (Platonov et al., Rossi et al.)",
            18,
            files=("directed_roman_empire.npz",),
            address=_DIRECTED_ROMAN,
        ),
        "arxiv-year": _nodes(
            "ogbn-arxiv with years as classes, directed, 5 splits (Lim et al.), ODC-BY",
            5,
            files=("edge.csv.gz", "node-feat.csv.gz", "node_year.csv.gz", "num-node-list.csv.gz"),
            address=_OGB_ARXIV,
        ),
        "snap-patents": _nodes(
            "US patents with years as classes, directed, 5 splits (Lim et al.)",
            5,
            files=("snap_patents.mat",),
            address=_PATENTS,
        ),
        "cora": _nodes(_PLANETOID, 7, "Planetoid", directed=False, name="Cora", split="public"),
        "citeseer": _nodes(_PLANETOID, 6, "Planetoid", directed=False, name="CiteSeer", split="public"),
        "pubmed": _nodes(_PLANETOID, 3, "Planetoid", directed=False, name="PubMed", split="public"),
    }
)


DATA_VARIABLE = "GRAPHPRISM_DATA"


def data_folder(root: str | os.PathLike[str] | None = None) -> Path:
    """``root``, else the folder that the environment names, else the user's cache."""
    named = named_folder(root)
    if named is not None:
        return named
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "graphprism"


def named_folder(root: str | os.PathLike[str] | None = None) -> Path | None:
    """``root``, else the folder that the environment names, else None."""
    if root is not None and not isinstance(root, str | os.PathLike):
        raise TypeError(f"`root` must be a name or a path, got {root!r}")
    named = root or os.environ.get(DATA_VARIABLE)
    return Path(named) if named else None


def find_name(name: str, folder: Path) -> str:
    """Finds the spelling of a name in `DATASETS` or among packed files, ignoring case; unknown names are unchanged.

    >>> find_name("Cora", Path("nowhere")), find_name("my own", Path("nowhere"))
    ('cora', 'my own')
    """
    if name in DATASETS or (folder / f"{name}.npz").is_file():
        return name
    there = [*DATASETS, *sorted(path.stem for path in folder.glob("*.npz"))]
    return next((each for each in there if each.lower() == name.lower()), name)
