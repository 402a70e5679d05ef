"""Small graphs in the layouts in which node-level sets are published."""

import gzip
from pathlib import Path

import numpy as np

EDGES = np.array([[0, 1], [0, 2], [3, 0], [4, 3], [4, 3], [5, 5], [7, 6]])  # one twice, one loop, node 8 and 9 alone
NUM_NODES = 10
YEARS = np.array([1999, 2001, 2001, 2003, 2005, 2006, 2008, 2010, 2011, 2019])


def masks(splits: int) -> np.ndarray:
    """Masks (3, S, N) of 5, 3 and 2 nodes, another part of the nodes in every split."""
    part = (np.arange(NUM_NODES) + np.arange(splits)[:, None]) % NUM_NODES
    return np.stack([part < 5, (part >= 5) & (part < 8), part >= 8])


def features(seed: int = 0, columns: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(NUM_NODES, columns)).astype(np.float32)


def heterophilous_arrays(splits: int = 10) -> dict[str, np.ndarray]:
    train_masks, val_masks, test_masks = masks(splits)
    return {
        "node_features": features(),
        "node_labels": np.arange(NUM_NODES) % 5,
        "edges": EDGES,
        "train_masks": train_masks,
        "val_masks": val_masks,
        "test_masks": test_masks,
    }


def write_heterophilous(folder: Path, file: str, **changed: np.ndarray | None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {**heterophilous_arrays(), **changed}
    np.savez(folder / file, **{key: array for key, array in arrays.items() if array is not None})
    return folder / file


def write_arxiv(folder: Path, **changed: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tables = {"edge": EDGES, "node-feat": features(), "node_year": YEARS[:, None], "num-node-list": [[NUM_NODES]]}
    for name, table in {**tables, **changed}.items():
        lines = "".join(",".join(map(str, np.asarray(row).tolist())) + "\n" for row in table)
        with gzip.open(folder / f"{name}.csv.gz", "wt") as file:
            file.write(lines)


def write_patents(folder: Path, node_feat: np.ndarray | None = None, **changed: object) -> Path:
    scipy_io, sparse = __import__("scipy.io").io, __import__("scipy.sparse").sparse
    folder.mkdir(parents=True, exist_ok=True)
    dense = features() * (features(1) > 0) if node_feat is None else node_feat
    content = {
        "edge_index": EDGES.T,
        "node_feat": sparse.csc_matrix(dense.astype(np.float64)),
        "num_nodes": np.array([[NUM_NODES]]),
        "years": YEARS[None].astype(np.float64),
        **changed,
    }
    content = {key: value for key, value in content.items() if value is not None}
    scipy_io.savemat(folder / "snap_patents.mat", content, do_compression=True)
    return folder / "snap_patents.mat"


def split_dictionaries(splits: int = 5) -> list[dict[str, np.ndarray]]:
    """The splits of `masks` as numbers of nodes."""
    return [
        {key: np.flatnonzero(mask[split]) for key, mask in zip(("train", "valid", "test"), masks(splits), strict=True)}
        for split in range(splits)
    ]


def write_object_array(path: Path, objects: list[object]) -> Path:
    array = np.empty(len(objects), object)
    array[:] = objects
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, array, allow_pickle=True)
    return path
