"""Which of several splits distinguishes most nodes?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from graphprism._text import counted, percent, rich_table, text_table, two_decimals
from graphprism.analysis.certificate.certificate import Certificate, RelationCertificate, layer_warnings
from graphprism.analysis.certificate.certify import certify_batch, one_batch
from graphprism.analysis.certificate.directions import DIRECTION_TOLERANCE
from graphprism.splitting import resolve_split

if TYPE_CHECKING:
    from rich.table import Table

_HEADER = ("split", "rank", "pairs distinguished", "balance of the relations", "acyclic", "ergodic")
# Relations that a row names.
_MOST_LISTED = 6


@dataclass(frozen=True)
class SplitComparison:
    """Certificates of several splits of the same graphs.

    Attributes:
        names: Name of each split.
        certificates: Certificate of each split.
        skipped: Name of each split that could not be computed, and why.
    """

    names: tuple[str, ...]
    certificates: tuple[Certificate, ...]
    skipped: tuple[tuple[str, str], ...] = ()

    def __getitem__(self, name: str) -> Certificate:
        """The certificate of the split of that name."""
        if name not in self.names:
            raise KeyError(f"no split {name!r} among {list(self.names)}")
        return self.certificates[self.names.index(name)]

    def to_json(self) -> str:
        """The fields as JSON text; `from_json` reads it back."""
        return json.dumps(asdict(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> SplitComparison:
        """The comparison that `to_json` wrote."""
        fields = json.loads(text)
        return cls(
            names=tuple(fields["names"]),
            certificates=tuple(Certificate.from_dict(certificate) for certificate in fields["certificates"]),
            skipped=tuple((name, reason) for name, reason in fields["skipped"]),
        )

    def __str__(self) -> str:
        return f"{text_table(_HEADER, self._rows())}\n\n{self._sizes()}{self._caption()}"

    def __rich__(self) -> Table:
        return rich_table("Splits side by side", _HEADER, self._rows(), f"{self._sizes()}{self._caption()}")

    def _sizes(self) -> str:
        if not self.certificates:
            return ""
        first = self.certificates[0]
        return f"{counted(first.num_nodes, 'node')}, {counted(first.num_edges, 'edge')}\n"

    def _caption(self) -> str:
        first = self.certificates[0] if self.certificates else None
        layer = None if first is None else first.layer
        if first is not None and layer is not None and layer.unproven is not None:
            return first.sentence
        subject = f'a layer with aggregation "{first.aggregation}"' if first and layer is None else "the layer"
        subject = subject if layer is None else layer.name
        known = layer is not None and layer.channels is not None
        channels = "" if known else "at least as many channels as weight matrices, and "
        activation = "an injective activation or none" if layer is None or layer.is_linear else "no activation or tanh"
        caption = (
            f"rank: {subject} has at least this one; pairs distinguished: mapped to linearly independent vectors. Both "
            f"for generic weights and input (almost all, not all), {channels}{activation}; sufficient, not necessary. "
            "It says nothing about accuracy."
        )
        return " ".join([caption, *([] if first is None else layer_warnings(first))])

    def _rows(self) -> list[list[str]]:
        rows = [_row(name, certificate) for name, certificate in zip(self.names, self.certificates, strict=True)]
        return rows + [[name, "", "", f"skipped: {reason}", "", ""] for name, reason in self.skipped]


def _row(name: str, certificate: Certificate) -> list[str]:
    rank = f"{certificate.rank} of {len(certificate.rank_counts) - 1}"
    pairs = certificate.total_pairs
    return [
        name,
        rank if certificate.num_graphs == 1 else f"{rank}, mean {two_decimals(certificate.mean_rank)}",
        percent(certificate.independent_pairs, pairs, decimals=1) if pairs else "no pairs",
        _balance(certificate.relations),
        _names([part.name for part in certificate.relations if part.acyclic], certificate.num_relations),
        _names([part.name for part in certificate.relations if part.ergodic], certificate.num_relations),
    ]


def _balance(relations: Sequence[RelationCertificate]) -> str:
    """Share of each relation; of many those with most edges."""
    total = sum(relation.num_edges for relation in relations)
    shown = relations
    if len(relations) > _MOST_LISTED:
        shown = sorted(relations, key=lambda part: -part.num_edges)[:_MOST_LISTED]
    words = [f"{part.name} {percent(part.num_edges, max(total, 1))}" for part in shown]
    if more := len(relations) - len(shown):
        empty = sum(not part.num_edges for part in relations) - sum(not part.num_edges for part in shown)
        without = ", without edges" if empty == more else f", {empty} of them without edges" if empty else ""
        words.append(f"and {more} more{without}")
    return ", ".join(words)


def _names(found: Sequence[str], count: int) -> str:
    """Names of relations, or of many their number."""
    if len(found) > _MOST_LISTED:
        return f"{len(found)} of {count}"
    return ", ".join(found) or "none"


def compare_splits(
    data: object,
    splits: Iterable[Any] | Mapping[str, Any],
    *,
    edge_weight: Tensor | None = None,
    layer: Any = None,
    aggregation: str | None = None,
    tolerance: float = DIRECTION_TOLERANCE,
) -> SplitComparison:
    """Certifies several splits of the same graphs; arguments as for `certify`.

    Args:
        data: A graph, a batch, or an iterable of graphs.
        splits: The splits, or a mapping from names to splits. The default name of a split is its ``repr``.
        edge_weight: Weight of each edge (E,).
        layer: The layer to certify; a function of the number of relations if the splits differ in it.
        aggregation: Without a layer: "sum" (the default), "mean", "relation_mean", "sym" or "dir".
        tolerance: See `direction_groups`.

    >>> import torch
    >>> from graphprism.splitting import Graph
    >>> path = Graph(torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), num_nodes=4)
    >>> [certificate.rank for certificate in compare_splits(path, ["degree", "random"]).certificates]
    [2, 2]
    """
    named = _named(splits)
    one = one_batch(data)
    options: dict[str, Any] = {"edge_weight": edge_weight, "aggregation": aggregation, "tolerance": tolerance}
    known: list[tuple[Tensor, Certificate]] = []  # cache: on a complete graph six of seven orderings are equal
    certificates = tuple(
        certify_batch(one, split, num_relations=None, layer=layer, known=known, **options) for split in named.values()
    )
    return SplitComparison(tuple(named), certificates)


def _named(splits: Iterable[Any] | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(splits, str) or not isinstance(splits, Iterable):
        came = f"the string {splits!r}" if isinstance(splits, str) else repr(splits)
        raise TypeError(f"`splits` must be a list of splits or a mapping from names to splits, got {came}")
    splits = splits if isinstance(splits, Mapping) else list(splits)
    if not splits:
        raise ValueError("`splits` must hold at least one split, got none")
    if isinstance(splits, Mapping):
        return dict(splits)
    named: dict[str, Any] = {}
    for split in splits:
        name = split if isinstance(split, str) else repr(resolve_split(split))
        if name in named:
            raise ValueError(f"`splits` must have different names, got {name!r} twice; name them in a mapping")
        named[name] = split
    return named
