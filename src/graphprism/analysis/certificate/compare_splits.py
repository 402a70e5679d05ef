"""Which of several splits keeps most nodes apart?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from graphprism.analysis.certificate._one_batch import one_batch
from graphprism.analysis.certificate.certify import certify_batch
from graphprism.analysis.certificate.direction_groups import DIRECTION_TOLERANCE
from graphprism.analysis.certificate.split_comparison import SplitComparison
from graphprism.splitting import resolve_split


def compare_splits(
    data: object,
    splits: Iterable[Any] | Mapping[str, Any],
    *,
    edge_weight: Tensor | None = None,
    aggregation: str = "sum",
    tolerance: float = DIRECTION_TOLERANCE,
) -> SplitComparison:
    """Certifies several splits of the same graphs; arguments as for `certify`.

    Args:
        data: A graph, a batch, or an iterable of graphs.
        splits: The splits, or a mapping from names to splits. A split without a name is called what it prints as.
        edge_weight: Weight of each edge (E,).
        aggregation: "sum", "mean", "relation_mean" or "sym".
        tolerance: See `direction_groups`.

    >>> import torch
    >>> from graphprism.splitting import Graph
    >>> path = Graph(torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), num_nodes=4)
    >>> [certificate.rank for certificate in compare_splits(path, ["degree", "random"]).certificates]
    [2, 2]
    """
    named = _named(splits)
    one = one_batch(data)
    certificates = tuple(
        certify_batch(
            one, split, num_relations=None, edge_weight=edge_weight, aggregation=aggregation, tolerance=tolerance
        )
        for split in named.values()
    )
    return SplitComparison(tuple(named), certificates)


def _named(splits: Iterable[Any] | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(splits, str):
        raise TypeError(
            f"`splits` must be a list of splits or a mapping from names to splits, got the string {splits!r}"
        )
    if isinstance(splits, Mapping):
        return dict(splits)
    named: dict[str, Any] = {}
    for split in splits:
        name = split if isinstance(split, str) else repr(resolve_split(split))
        if name in named:
            raise ValueError(f"`splits` must have different names, got {name!r} twice; name them in a mapping")
        named[name] = split
    return named
