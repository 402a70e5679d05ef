"""What a data set asks for: the loss to train with and the metric to compare by, as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional

from graphprism._checks import check_type
from graphprism._extras import needs_extra
from graphprism.datasets import PackedDataset
from graphprism.training.run import ORIGIN, Run

LEVELS = ("graph", "node")
# Fields of a run without effect at a level: to set one would give equal runs different keys.
_UNUSED = {
    "graph": ("fold", "encode", "input_dropout", "undirected", "self_loops", "row_normalise", "neighbors"),
    "node": ("pe", "node_encoder", "walk_steps", "edge_walks", "head_layers", "head", "head_activation"),
}


def _l1(output: Tensor, target: Tensor) -> Tensor:
    return functional.l1_loss(output, target, reduction="none").mean(-1)


def _binary_cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(output, target, reduction="none").mean(-1)


def _cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(output, target.view(-1), reduction="none")


# The loss of every row, a mean over its targets: (B, T) or (B, classes), (B, T) or (B,) -> (B,)
LOSSES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = MappingProxyType(
    {
        "regression": _l1,
        "binary": _binary_cross_entropy,
        "multilabel": _binary_cross_entropy,
        "multiclass": _cross_entropy,
    }
)


def _mean_absolute_error(output: Tensor, target: Tensor) -> float:
    with needs_extra("training"):
        from torchmetrics.functional import mean_absolute_error

    return float(mean_absolute_error(output, target.double()))


def _accuracy(output: Tensor, target: Tensor) -> float:
    with needs_extra("training"):
        from torchmetrics.functional.classification import multiclass_accuracy

    return 100 * float(multiclass_accuracy(output, target.view(-1), output.size(1), average="micro"))


def _area_under_roc(output: Tensor, target: Tensor) -> float:
    """Mean over labels, without those that all or none of the rows have."""
    return _mean_over_labels("binary_auroc", output, target)


def _mean_average_precision(output: Tensor, target: Tensor) -> float:
    """Mean over labels of average precision, without the labels that all or none of the rows have."""
    return _mean_over_labels("binary_average_precision", output, target)


def _mean_over_labels(name: str, output: Tensor, target: Tensor) -> float:
    labels = zip(output.t(), target.long().t(), strict=True)
    return float(torch.tensor([_label_score(name, *each) for each in labels], dtype=torch.float64).nanmean())


def _label_score(name: str, output: Tensor, target: Tensor) -> float:
    with needs_extra("training"):
        from torchmetrics.functional import classification

    if bool((target == target[0]).all()):
        return float("nan")
    # torchmetrics takes a sigmoid of logits, which makes large ones equal; only their order counts
    rank = torch.unique(output, return_inverse=True)[1].double()
    return float(getattr(classification, name)(rank / rank.max().clamp(min=1), target))


def _check_remedy(run: Run, level: str) -> None:
    """Raises unless a remedy stands alone on plain graph convolutions between an encoder and a head."""
    wanted = {
        "model": "gcn",
        "residual": False,
        "norm": None,
        "normalize": False,
        "ffn": False,
        "jk": None,
        "encode": level == "node",
    }
    for name, value in wanted.items():
        if getattr(run, name) != value:
            raise ValueError(f"`{name}` must be {value!r} with the remedy {run.remedy}, got {getattr(run, name)!r}")


@dataclass(frozen=True)
class Metric:
    """How outputs are compared with targets.

    Attributes:
        score: The score of all outputs of a fold at once, in float64, so that a small last batch counts no more than
            its rows.
        larger_is_better: Of the scores.
        unit: For people.
    """

    score: Callable[[Tensor, Tensor], float]
    larger_is_better: bool
    unit: str


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        "mae": Metric(_mean_absolute_error, False, "MAE"),
        "ap": Metric(_mean_average_precision, True, "AP"),
        "auroc": Metric(_area_under_roc, True, "AUROC"),
        "accuracy": Metric(_accuracy, True, "percent"),
    }
)


@dataclass(frozen=True)
class Task:
    """A level, a kind of target and a metric.

    Attributes:
        level: ``"graph"`` or ``"node"``: what has a target.
        target: A name of `LOSSES`.
        metric: A name of `METRICS`.

    >>> Task("graph", "regression", "mae").score(torch.tensor([[1.0], [5.0]]), torch.tensor([[2.0], [2.0]]))
    2.0
    """

    level: str
    target: str
    metric: str

    @classmethod
    def of(cls, dataset: PackedDataset) -> Task:
        """The task of a data set.

        Raises:
            ValueError: Its level, target or metric is not known, or it has no graph to train on.
        """
        check_type("dataset", dataset, PackedDataset, "a PackedDataset")
        for name, value, known in (
            ("level", dataset.level, LEVELS),
            ("task", dataset.task, tuple(LOSSES)),
            ("metric", dataset.metric, tuple(METRICS)),
        ):
            if value not in known:
                raise ValueError(f"`dataset.{name}` must be one of {list(known)}, got {value!r}")
        if dataset.level == "node" and (dataset.task, dataset.metric) != ("multiclass", "accuracy"):
            raise ValueError(f"`dataset` must have classes of nodes and their accuracy, got {dataset!r}")
        if dataset.level == "graph" and not dataset.subset("train").numel():
            raise ValueError(f"`dataset` must have a graph for training, got {dataset!r} without")
        return cls(dataset.level, dataset.task, dataset.metric)

    def check(self, run: Run) -> None:
        """Raises `ValueError` where a run sets a field that has no effect at this level, or lacks one that it needs."""
        check_type("run", run, Run, "a Run")
        for name in _UNUSED[self.level]:
            if getattr(run, name) != ORIGIN[name]:
                raise ValueError(
                    f"`{name}` must be {ORIGIN[name]!r} for targets of {self.level}s, got {getattr(run, name)!r}"
                )
        if run.pe_encoder is not None and not run.pe:
            raise ValueError(f"`pe_encoder` must be None where `pe` is 0, got {run.pe_encoder!r}")
        if run.remedy is not None:
            _check_remedy(run, self.level)
        if (run.walk_steps > 0) != (run.pe_encoder == "walk"):
            must = "at least 1" if run.pe_encoder == "walk" else '0 without pe_encoder="walk"'
            raise ValueError(f"`walk_steps` must be {must}, got {run.walk_steps}")
        if self.level == "node" and (run.batch_size is None) != (run.neighbors is None):
            must = "None (the whole graph)" if run.neighbors is None else "a number of nodes with `neighbors`"
            raise ValueError(f"`batch_size` must be {must} for targets of nodes, got {run.batch_size}")

    @property
    def larger_is_better(self) -> bool:
        """Of the scores."""
        return METRICS[self.metric].larger_is_better

    @property
    def scores_are_losses(self) -> bool:
        """Whether the score of a fold is its mean loss, so that training need not keep its outputs."""
        return (self.target, self.metric) == ("regression", "mae")

    def losses(self, output: Tensor, target: Tensor) -> Tensor:
        """The loss of every row.

        Shapes: ``output`` (B, T) or (B, classes), ``target`` (B, T) or (B,) -> (B,)
        """
        return LOSSES[self.target](output, target)

    def score(self, output: Tensor, target: Tensor) -> float:
        """The score of all outputs of a fold; NaN where it is empty.

        Shapes: as `losses`
        """
        return METRICS[self.metric].score(output.double(), target) if target.size(0) else float("nan")

    def scores(self, output: Tensor, target: Tensor) -> list[float]:
        """Scores of K runs, (K, B, T) and targets for each.

        The mean absolute error is taken of all at once: a call for each run would take longer than an epoch.
        """
        if self.scores_are_losses:
            values: list[float] = (output.double() - target.double()).abs().flatten(1).mean(1).tolist()
            return values
        return [self.score(one.nan_to_num().cpu(), wanted.cpu()) for one, wanted in zip(output, target, strict=True)]
