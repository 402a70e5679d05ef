"""What a data set becomes before any engine trains on it: split edges and positional features."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Batch

from graphprism.datasets import PackedDataset
from graphprism.nn.models import make_conv
from graphprism.ops import RelationalAdj
from graphprism.splitting import resolve_split
from graphprism.training.build_model import relations_of
from graphprism.training.run import Run
from graphprism.transforms import LaplacianPE

# Graphs whose positions are computed at once: the transform looks at all edges for each of its graphs.
_POSITIONS_AT_ONCE = 64


def edge_needs(run: Run, dataset: PackedDataset) -> tuple[str, bool]:
    """The normalisation that the convolution of a run wants, and whether it takes types of edges."""
    with torch.device("meta"):
        conv = make_conv(run.model, 2, relations_of(run), 2 if dataset.edge_types else None)
    return str(conv.edge_norm), getattr(conv, "edge_dim", None) is not None


def split_graph(run: Run, whole: Batch) -> RelationalAdj:
    """All graphs as one, split as the run wants it and sorted, without weights."""
    relations = relations_of(run)
    edge_type = resolve_split(run.split)(whole) if relations > 1 else None
    return RelationalAdj(whole.edge_index, edge_type, num_relations=relations, num_nodes=whole.num_nodes).prepare()


def positions(dataset: PackedDataset, k: int) -> Tensor:
    """``k`` Laplacian positional features of every node, graph by graph: (ΣN, k)."""
    transform, found = LaplacianPE(k), []
    for group in torch.arange(len(dataset)).split(_POSITIONS_AT_ONCE):
        batch = dataset.batch(group)
        batch.edge_index = batch.edge_index.contiguous()
        found.append(transform(batch).pe)
    return torch.cat(found)
