"""Edges of the tests of files."""

from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from graphprism import SplitEdges
from graphprism.splitting import parse_split

SPLITS = [
    "degree",
    "ppr",
    "degree, ppr",
    "direction",
    "attr(bond)",
    "attr(bond, 4)",
    "degree * direction",
    "degree, ppr * direction * attr(bond)",
]


def random_edges(num_nodes: int = 60, num_edges: int = 700, seed: int = 0) -> dict[str, np.ndarray]:
    """Skewed, with loops, repeated edges, mutual ones, nodes that none leaves and an attribute."""
    rng = np.random.default_rng(seed)
    source = (num_nodes * rng.random(num_edges) ** 2).astype(np.int64)
    target = rng.integers(0, num_nodes - 3, num_edges)
    source[:5] = target[:5]
    source[5], target[5] = 3, num_nodes - 1  # the largest id
    return {"source": source, "target": target, "bond": rng.integers(0, 4, num_edges), "weight": rng.random(num_edges)}


def write(path: Path, columns: dict[str, object], **options: object) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path, **options)
    return path


def in_memory(columns: dict[str, np.ndarray], split: str) -> torch.Tensor:
    """The relations that `SplitEdges` gives."""
    edge_index = torch.from_numpy(np.stack([columns["source"], columns["target"]]))
    data = Data(edge_index=edge_index, num_nodes=int(edge_index.max()) + 1)
    if "bond" in columns:
        data.bond = torch.from_numpy(columns["bond"])
    return SplitEdges(parse_split(split))(data).edge_type
