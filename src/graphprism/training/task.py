"""The task of a data set: the loss to train with and the metric of its scores, as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional

from graphprism._checks import check_choice, check_type
from graphprism._extras import needs_extra
from graphprism.datasets import PackedDataset
from graphprism.nn import CONVOLUTIONS
from graphprism.nn.models.remedies import SPLITTABLE
from graphprism.splitting import parse_splits
from graphprism.training.run import ORIGIN, Run
from graphprism.training.run_splits import is_soft

LEVELS = ("graph", "node", "link")
# Fields of a run without effect at a level: setting one would give two keys to the same training.
_OF_GRAPHS = ("pe", "node_encoder", "walk_steps", "edge_walks", "head_layers", "head", "head_activation")
_UNUSED = {
    "graph": ("fold", "encode", "input_dropout", "undirected", "self_loops", "row_normalise", "neighbors"),
    "node": _OF_GRAPHS,
    "link": (*_OF_GRAPHS, "fold"),
}


def _l1(output: Tensor, target: Tensor) -> Tensor:
    return functional.l1_loss(output, target, reduction="none")


def _binary_cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(output, target, reduction="none")


def _squared(output: Tensor, target: Tensor) -> Tensor:
    return functional.mse_loss(output, target, reduction="none")


def _cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(output, target.view(-1), reduction="none")


# The loss of every target, (B, T), (B, T) -> (B, T), or of the class of every row, (B, classes), (B,) -> (B,)
LOSSES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = MappingProxyType(
    {
        "regression": _l1,
        "binary": _binary_cross_entropy,
        "multilabel": _binary_cross_entropy,
        "multiclass": _cross_entropy,
    }
)
# Losses that belong to a metric rather than to the kind of target.
_LOSS_OF_METRIC: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = MappingProxyType({"rmse": _squared})


def _mean_absolute_error(output: Tensor, target: Tensor) -> float:
    with needs_extra("training"):
        from torchmetrics.functional import mean_absolute_error

    output, target = _known(output, target)
    return float(mean_absolute_error(output, target.double())) if target.numel() else float("nan")


def _root_mean_squared_error(output: Tensor, target: Tensor) -> float:
    with needs_extra("training"):
        from torchmetrics.functional import mean_squared_error

    output, target = _known(output, target)
    return float(mean_squared_error(output, target.double(), squared=False)) if target.numel() else float("nan")


def _known(output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs and targets without those whose target is missing, as vectors; unchanged where none is."""
    known = ~target.isnan()
    return (output, target) if bool(known.all()) else (output[known], target[known])


def _is_classes(output: Tensor, target: Tensor) -> bool:
    """Whether targets are numbers of classes: one in each row, and an output for each class."""
    return output.size(1) > 1 and target.numel() == target.size(0)


def _accuracy(output: Tensor, target: Tensor) -> float:
    """Of classes, or of labels that are predicted where an output is above 0."""
    with needs_extra("training"):
        from torchmetrics.functional.classification import multiclass_accuracy

    if not _is_classes(output, target):
        output, target = _known(output, target.view_as(output))
        return 100 * float(((output > 0) == (target > 0.5)).double().mean())
    return 100 * float(multiclass_accuracy(output, target.view(-1), output.size(1), average="micro"))


def _f1(output: Tensor, target: Tensor) -> float:
    """Mean over classes, or over the labels that some row has; of a binary target that of its second class."""
    with needs_extra("training"):
        from torchmetrics.functional.classification import binary_f1_score, multiclass_f1_score

    if _is_classes(output, target):
        return float(multiclass_f1_score(output, target.view(-1), output.size(1), average="macro"))
    labels = [(found > 0, wanted) for found, wanted in _labels(output, target)]
    return _mean(
        [float(binary_f1_score(found.long(), wanted)) if wanted.any() else float("nan") for found, wanted in labels]
    )


def _area_under_roc(output: Tensor, target: Tensor) -> float:
    """Mean over labels, or over classes each against the others, without those that all or none of the rows have.

    Of each label the rows count whose target is known.
    """
    return _mean([_label_score("binary_auroc", *each) for each in _labels(output, target)])


def _mean_average_precision(output: Tensor, target: Tensor) -> float:
    """Mean over labels of average precision, without the labels that all or none of the rows have.

    Of each label the rows count whose target is known.
    """
    return _mean([_label_score("binary_average_precision", *each) for each in _labels(output, target)])


def _labels(output: Tensor, target: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Outputs and targets, 0 or 1, of the rows where a label is known, for each label."""
    if _is_classes(output, target):
        wanted = functional.one_hot(target.view(-1).long(), output.size(1))
        output = output.log_softmax(-1)  # comparable between rows
    else:
        wanted = target.view_as(output)
    found = [_known(*each) for each in zip(output.t(), wanted.t(), strict=True)]
    return [(own, label.long()) for own, label in found]


def _label_score(name: str, output: Tensor, target: Tensor) -> float:
    with needs_extra("training"):
        from torchmetrics.functional import classification

    if bool((target == target[:1]).all()):
        return float("nan")
    # torchmetrics takes a sigmoid of logits, which makes large ones equal; only their order counts
    rank = torch.unique(output, return_inverse=True)[1].double()
    return float(getattr(classification, name)(rank / rank.max().clamp(min=1), target))


def _check_remedy(run: Run, level: str) -> None:
    """Raises unless a remedy stands alone on graph convolutions, plain or split, between an encoder and a head."""
    models = ("gcn", "mrs-gcn") if run.remedy in SPLITTABLE else ("gcn",)
    if run.model not in models:
        raise ValueError(f"`model` must be {' or '.join(models)} with the remedy {run.remedy}, got {run.model!r}")
    wanted = {
        "residual": False,
        "norm": None,
        "normalize": False,
        "ffn": False,
        "learned_split": False,
        "split_layers": "all",
        "jk": None,
        "encode": level == "node",
    }
    for name, value in wanted.items():
        if getattr(run, name) != value:
            raise ValueError(f"`{name}` must be {value!r} with the remedy {run.remedy}, got {getattr(run, name)!r}")


def _mean(values: list[float]) -> float:
    return float(torch.tensor(values, dtype=torch.float64).nanmean())


def hits_at(count: int) -> Callable[[Tensor, Tensor], float]:
    """Share of the edges that are above all but ``count - 1`` of the pairs without an edge.

    NaN where there are at most ``count`` of these: hardly any order of the pairs would be worse than 1.

    >>> hits_at(1)(torch.tensor([[3.0], [1.0], [2.0], [0.0]]), torch.tensor([[1.0], [1.0], [0.0], [0.0]]))
    0.5
    """

    def score(output: Tensor, target: Tensor) -> float:
        is_edge = target.view(-1) > 0.5
        edges, others = output.view(-1)[is_edge], output.view(-1)[~is_edge]
        if others.numel() <= count:
            return float("nan")
        return float((edges > others.topk(count).values[-1]).double().mean())

    return score


@dataclass(frozen=True)
class Metric:
    """How outputs are compared with targets.

    Attributes:
        score: The score of all outputs of a fold at once, in float64, so that a small last batch counts no more than
            its rows.
        larger_is_better: Whether larger scores are better.
        unit: Unit for tables and plots.
        targets: Kinds of targets that it applies to.
    """

    score: Callable[[Tensor, Tensor], float]
    larger_is_better: bool
    unit: str
    targets: tuple[str, ...] = ("binary", "multiclass", "multilabel")

    @property
    def is_percent(self) -> bool:
        """Whether scores are percentages."""
        return self.unit == "percent"

    @property
    def difference_unit(self) -> str:
        """Unit of a difference of two scores: percentages differ by points."""
        return "points" if self.is_percent else self.unit


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        "mae": Metric(_mean_absolute_error, False, "MAE", ("regression",)),
        "rmse": Metric(_root_mean_squared_error, False, "RMSE", ("regression",)),
        "ap": Metric(_mean_average_precision, True, "AP"),
        "auroc": Metric(_area_under_roc, True, "AUROC"),
        "accuracy": Metric(_accuracy, True, "percent"),
        "f1": Metric(_f1, True, "F1"),
        **{f"hits@{count}": Metric(hits_at(count), True, f"hits@{count}", ("binary",)) for count in (10, 20, 50, 100)},
    }
)


@dataclass(frozen=True)
class Task:
    """A level, a kind of target and a metric.

    Attributes:
        level: ``"graph"``, ``"node"`` or ``"link"``: what has a target.
        target: A name of `LOSSES`.
        metric: A name of `METRICS`.
        weights: Weight of each class in the loss; for a binary target, and for each label, two numbers, of 0 and of 1.
            None weighs all rows equally.
        has_missing: Whether some of several targets are missing, which is NaN. `losses` then leaves them out; scores
            always do.

    >>> Task("graph", "regression", "mae").score(torch.tensor([[1.0], [5.0]]), torch.tensor([[2.0], [2.0]]))
    2.0
    >>> task = Task("graph", "regression", "mae", has_missing=True)
    >>> task.losses(torch.tensor([[1.0, 5.0], [4.0, 0.0]]), torch.tensor([[2.0, 2.0], [2.0, torch.nan]])).tolist()
    [2.0, 2.0]
    """

    level: str
    target: str
    metric: str
    weights: tuple[float, ...] | None = None
    has_missing: bool = False

    @classmethod
    def of(cls, dataset: PackedDataset, run: Run | None = None) -> Task:
        """The task of a data set, with the metric and the class weights of a run where it has any.

        Raises:
            ValueError: Its level, target or metric is not known, or it has no graph to train on.
        """
        check_type("dataset", dataset, PackedDataset, "a PackedDataset")
        if run is not None:
            check_type("run", run, Run, "a Run")
        metric = dataset.metric if run is None or run.metric is None else run.metric
        for name, value, known in (
            ("dataset.level", dataset.level, LEVELS),
            ("dataset.task", dataset.task, tuple(LOSSES)),
            ("metric" if run is not None and run.metric else "dataset.metric", metric, tuple(METRICS)),
        ):
            check_choice(name, value, known)
        if dataset.task not in METRICS[metric].targets:
            fitting = [name for name, each in METRICS.items() if dataset.task in each.targets]
            raise ValueError(f"the metric must be one of {fitting} for the task {dataset.task}, got {metric!r}")
        if dataset.level != "node" and not dataset.subset("train").numel():
            raise ValueError(f"`dataset` must have a graph for training, got {dataset!r} without")
        weights = None if run is None or run.class_weights is None else _balanced(dataset, run)
        return cls(dataset.level, dataset.task, metric, weights, bool(dataset.y.isnan().any()))

    def check(self, run: Run) -> None:
        """Raises `ValueError` where a run sets a field that has no effect at this level, or lacks one that it needs."""
        check_type("run", run, Run, "a Run")
        for name in _UNUSED[self.level]:
            if getattr(run, name) != ORIGIN[name]:
                raise ValueError(
                    f"`{name}` must be {ORIGIN[name]!r} for targets of {self.level}s, got {getattr(run, name)!r}"
                )
        if run.pe_encoder is not None and not run.pe:
            raise ValueError(f"`pe` must be at least 1 with pe_encoder={run.pe_encoder!r}, got 0")
        if run.remedy is not None:
            _check_remedy(run, self.level)
        if run.learned_split and run.model in CONVOLUTIONS and CONVOLUTIONS[run.model].has_softmax:
            must = f"must be False for {run.model}, whose attention takes no negative score"
            raise ValueError(f"`learned_split` {must}, got True")
        if run.learned_split and any(map(is_soft, parse_splits(run.split))):
            raise ValueError(f"`split` must give each edge one relation with `learned_split`, got {run.split!r}")
        if (run.walk_steps > 0) != (run.pe_encoder == "walk"):
            must = "at least 1" if run.pe_encoder == "walk" else '0 without pe_encoder="walk"'
            raise ValueError(f"`walk_steps` must be {must}, got {run.walk_steps}")
        if self.level != "graph" and (run.batch_size is None) != (run.neighbors is None):
            unit = "nodes" if self.level == "node" else "pairs"
            must = "None (the whole graph)" if run.neighbors is None else f"a number of {unit} with `neighbors`"
            hint = f": batches of {unit} need `neighbors`" if run.neighbors is None else ""
            raise ValueError(f"`batch_size` must be {must} for targets of {self.level}s, got {run.batch_size}{hint}")
        if run.class_weights is not None and (self.target == "regression" or self.level == "link"):
            raise ValueError(f"`class_weights` must be None without classes or labels, got {run.class_weights!r}")

    @property
    def larger_is_better(self) -> bool:
        """Whether larger scores are better."""
        return METRICS[self.metric].larger_is_better

    @property
    def scores_are_losses(self) -> bool:
        """Whether the score of a fold is its mean loss, so that training need not keep its outputs."""
        # a row counts once in the loss, and as often as it has known targets in the score
        return self._is_mean_error and not self.has_missing

    @property
    def _is_mean_error(self) -> bool:
        """Whether loss and score are absolute errors."""
        return (self.target, self.metric) == ("regression", "mae")

    def losses(self, output: Tensor, target: Tensor) -> Tensor:
        """The loss of every row, a mean over its known targets; 0 where it has none.

        Shapes: ``output`` (B, T) or (B, classes), ``target`` (B, T) or (B,) -> (B,)
        """
        if self.target == "multiclass":
            return self._each(output, target)
        if not self.has_missing:
            return self._each(output, target).mean(-1)
        # filled before the loss as well: NaN, or an infinite output, times a gradient of 0 would be NaN
        missing = target.isnan()
        each = self._each(output.masked_fill(missing, 0), target.masked_fill(missing, 0))
        return each.masked_fill(missing, 0).sum(-1) / (~missing).sum(-1).clamp(min=1)

    def _each(self, output: Tensor, target: Tensor) -> Tensor:
        """The loss of every target, or of the class of every row, with its weight."""
        each = _LOSS_OF_METRIC.get(self.metric, LOSSES[self.target])(output, target)
        if self.weights is None:
            return each
        # Python numbers: a captured step must not copy a tensor to the device
        if self.target == "multiclass":
            classes = target.view(-1)
            return each * sum(
                (classes == number).to(output.dtype) * weight for number, weight in enumerate(self.weights)
            )
        pairs = zip(target.unbind(-1), self.weights[::2], self.weights[1::2], strict=True)
        return each * torch.stack([without + (having - without) * label for label, without, having in pairs], -1)

    def score(self, output: Tensor, target: Tensor) -> float:
        """The score of all outputs of a fold whose targets are known; NaN where there are none.

        Shapes: as `losses`
        """
        return METRICS[self.metric].score(output.double(), target) if target.size(0) else float("nan")

    def scores(self, output: Tensor, target: Tensor) -> list[float]:
        """Scores of K runs from outputs (K, B, T) and targets of each.

        The mean absolute error is computed for all runs at once: one call per run would take longer than an epoch.
        """
        if self._is_mean_error:
            errors = (output.double() - target.double()).abs().flatten(1)
            missing = target.isnan().flatten(1)
            known = errors.masked_fill(missing, 0).sum(1) / (~missing).sum(1) if self.has_missing else errors.mean(1)
            values: list[float] = known.tolist()
            return values
        return [self.score(one.nan_to_num().cpu(), wanted.cpu()) for one, wanted in zip(output, target, strict=True)]


def _balanced(dataset: PackedDataset, run: Run) -> tuple[float, ...]:
    """Weights of classes, or of both values of each label, with equal totals in training and a mean of 1.

    Of each label the rows count whose target is known; a label without any has weights of 0.
    """
    if dataset.level == "node" and dataset.train_mask is not None:
        y = dataset.y[dataset.train_mask[:, min(run.fold, dataset.train_mask.size(1) - 1)]]
    else:
        y = dataset.y[dataset.subset("train")]
    if dataset.task == "multiclass":
        counts = y.long().view(-1).bincount(minlength=dataset.num_outputs)[None]
    else:
        labels = y.double().view(y.size(0), -1)
        having = labels.nansum(0)
        counts = torch.stack([(~labels.isnan()).sum(0) - having, having], 1)
    there = (counts > 0).sum(1, keepdim=True).clamp(min=1)
    weights = counts.double().sum(1, keepdim=True) * (there * counts.double().clamp(min=1)).reciprocal()
    return tuple(weights.view(-1).tolist())
