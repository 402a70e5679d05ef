"""Certificates of a graph for all orderings."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from graphprism.analysis.certificate import SplitComparison, compare_splits
from graphprism.analysis.certificate.certify import one_batch
from graphprism.io.read_graph import read_graph
from graphprism.splitting import ORDERINGS


def inspect_graph(data: object, *, layer: Any = None, aggregation: str | None = None) -> SplitComparison:
    """Certifies the split by each ordering, on a graph, a batch, a dataset, or the path of a graph file.

    ``layer`` and ``aggregation`` are those of `certify`.

    The ordering by features is skipped, with the reason in the result, if nodes have no features.

    >>> import torch
    >>> from graphprism.splitting import Graph
    >>> comparison = inspect_graph(Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3))
    >>> comparison["degree"].rank, comparison.skipped
    (2, (('features', 'the nodes have no features `x`'),))
    """
    graph = one_batch(read_graph(data) if isinstance(data, str | os.PathLike) else data).graph
    without_x = getattr(graph, "x", None) is None
    names = [name for name in ORDERINGS if not (name == "features" and without_x)]
    skipped = (("features", "the nodes have no features `x`"),) if without_x else ()
    return replace(compare_splits(graph, names, layer=layer, aggregation=aggregation), skipped=skipped)
