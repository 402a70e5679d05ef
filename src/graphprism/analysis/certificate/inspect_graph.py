"""The certificate of a graph for every ordering."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from graphprism.analysis.certificate import SplitComparison, compare_splits
from graphprism.analysis.certificate.certify import one_batch
from graphprism.io.read_graph import read_graph
from graphprism.splitting import ORDERINGS


def inspect_graph(data: object, *, layer: Any = None, aggregation: str | None = None) -> SplitComparison:
    """Certifies the split by each of the orderings, on a graph, a batch, a dataset, or the path of a graph's file.

    ``layer`` and ``aggregation`` are those of `certify`.

    Orders by features are left out, and named with the reason, where nodes have none.

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
