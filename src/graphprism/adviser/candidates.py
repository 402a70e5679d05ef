"""Candidate splits, with their certificate and cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from graphprism.analysis import Certificate, certify
from graphprism.datasets import PackedDataset
from graphprism.nn import CONVOLUTIONS
from graphprism.splitting import Split
from graphprism.training.build_model import make_network, width_of
from graphprism.training.run import Run
from graphprism.training.run_splits import run_splits, split_input

# Most graphs to certify: the shares of pairs in such a sample are close to those of all graphs.
_CERTIFIED = 256
# Most edge types that may be relations: with more, each matrix would have few edges.
_MOST_TYPES = 16
# Share of the largest relation from which on a split is not tried: the others are almost empty.
_NEARLY_ALL = 0.98


@dataclass(frozen=True)
class Candidate:
    """A split and its figures without training.

    Attributes:
        split: Its text.
        start: Initialisation of relations, ``"shared"`` or ``"independent"``; see `Run`.
        relations: Number of relations that occur.
        parameters: Number of parameters of the network to train.
        distinguished: Share of the pairs of nodes that a layer is proven to distinguish; None without a pair.
        merged: The same with one relation; None for soft splits.
        ties: Share of edges that are ties; None without an ordering.
        largest: Share of the largest relation in all edges.
        silenced: Share of edges with coefficient 0 after the norm of the layer.
        left_out: Why it is not tried; None if it is.
    """

    split: str
    start: str
    relations: int
    parameters: int
    distinguished: float | None
    merged: float | None
    ties: float | None
    largest: float
    silenced: float
    left_out: str | None = None

    @property
    def label(self) -> str:
        """The split and its start, as text."""
        return f"{self.split}, relations {'together' if self.start == 'shared' else 'apart'}"

    def applied(self, run: Run) -> Run:
        """A run with this split."""
        return replace(run, model=mrs_model(run), split=self.split, start=self.start)


def default_splits(dataset: PackedDataset) -> list[str]:
    """Default candidates for a data set: the degree, then edge types, direction and features if present."""
    found = ["degree"]
    for attribute in _attributes(dataset)[:1]:
        found += [attribute, f"degree * {attribute}"]
    if dataset.directed:
        found.append("degree * direction")
    if dataset.level != "graph" and dataset.x.size(1) > 1:
        found.append("similarity")
    return found


def _attributes(dataset: PackedDataset) -> list[str]:
    """Columns of ``edge_attr`` with a few types each, those with most types first."""
    if dataset.edge_attr is None:
        return []
    columns = dataset.edge_attr.view(dataset.edge_attr.size(0), -1)
    counts = {column: torch.unique(columns[:, column]).numel() for column in range(columns.size(1))}
    few = [column for column, count in counts.items() if 1 < count <= _MOST_TYPES]
    fitting = [column for column in few if not _is_real(columns[:, column])]
    fitting.sort(key=lambda column: -counts[column])
    return [f"attr(edge_attr, column={column})" if columns.size(1) > 1 else "attr(edge_attr)" for column in fitting]


def _is_real(values: torch.Tensor) -> bool:
    return bool((values < 0).any()) or (values.is_floating_point() and bool((values != values.round()).any()))


def candidates(run: Run, dataset: PackedDataset, texts: Sequence[str]) -> list[Candidate]:
    """Every split with the start of the run; if that is shared, also with an independent start.

    With a shared start a model is rarely worse than the plain one, but short trainings move its relations little;
    independent relations may gain more, and lose more.
    """
    found = [candidate(run, dataset, text) for text in texts]
    if run.start == "independent" or not run.decay:
        return found
    return [each for known in found for each in (known, replace(known, start="independent"))]


def candidate(run: Run, dataset: PackedDataset, text: str) -> Candidate:
    """Certifies the layer on a split, and counts its parameters.

    Raises:
        ValueError: The data set lacks an attribute that this split reads.
    """
    mrs = replace(run, model=mrs_model(run), split=text)
    splits = run_splits(mrs, dataset)
    sample = dataset
    if dataset.level == "graph":
        step = max(1, len(dataset) // _CERTIFIED)
        sample = dataset.select(torch.arange(0, len(dataset), step)[:_CERTIFIED])
    certificate = certify(split_input(mrs, sample), splits[0], layer=_layer(mrs, dataset, splits[0]))
    width = width_of(mrs, dataset)
    with torch.device("meta"):
        parameters = sum(weight.numel() for weight in make_network(mrs, dataset, width).parameters())
    largest = max(certificate.balance)
    return Candidate(
        split=text,
        start=run.start,
        relations=certificate.num_relations,
        parameters=parameters,
        distinguished=certificate.share,
        merged=_merged(certificate),
        ties=_ties(certificate),
        largest=largest,
        silenced=certificate.layer.silenced_edges / max(1, certificate.num_edges) if certificate.layer else 0.0,
        left_out=f"{100 * largest:.0f} % of the edges are in one relation" if largest >= _NEARLY_ALL else None,
    )


def mrs_model(run: Run) -> str:
    """The MRS form of the model of a run.

    Raises:
        ValueError: It has none.
    """
    convolution = CONVOLUTIONS[run.model]
    name = run.model if convolution.relational else convolution.partner
    if name is None:
        partners = sorted(name for name, each in CONVOLUTIONS.items() if each.partner and not each.relational)
        raise ValueError(f"`run.model` must have an MRS form, as {', '.join(partners)} have, got {run.model!r}")
    return name


def _layer(run: Run, dataset: PackedDataset, split: Split) -> torch.nn.Module:
    width = max(width_of(run, dataset), 2 * (split.num_relations or 1) + 1)
    convolution = CONVOLUTIONS[run.model]
    options = {"alpha": run.alpha, "start": run.start, "decay": run.decay}
    return convolution.make(8, width, num_relations=split.num_relations or 1, **options)  # type: ignore[arg-type]


def _merged(certificate: Certificate) -> float | None:
    merged = None if certificate.layer is None else certificate.layer.merged_pairs
    return None if merged is None or not certificate.total_pairs else merged / certificate.total_pairs


def _ties(certificate: Certificate) -> float | None:
    """Share of edges in relations that are ties of an ordering, alone or in a product."""
    parts = zip(certificate.relations, certificate.balance, strict=True)
    names = [relation.name.split(",") for relation in certificate.relations]
    if not any({"up", "down", "tie"} & {*each} for each in names):
        return None
    return sum(share for relation, share in parts if "tie" in relation.name.split(","))


def texts_of(splits: Sequence[str] | None, dataset: PackedDataset) -> list[str]:
    """The candidate splits without duplicates."""
    return list(dict.fromkeys(default_splits(dataset) if splits is None else splits))
