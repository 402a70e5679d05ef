"""The loss of a task."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.datasets import PackedDataset

TASKS = ("regression", "multilabel", "multiclass")


def loss_sum(task: str, output: Tensor, target: Tensor) -> Tensor:
    """Sum over graphs of the loss, each graph's being a mean over its targets.

    L1 for regression, binary cross-entropy for several labels, cross-entropy for classes. A sum and not a mean, so that
    the parts of a batch add up, however large each is.

    Shapes: ``output`` (B, T) or (B, classes), ``target`` (B, T) or (B,) -> ()

    >>> loss_sum("regression", torch.tensor([[1.0], [5.0]]), torch.tensor([[2.0], [2.0]])).item()
    4.0
    """
    functional = torch.nn.functional
    if task == "multiclass":
        return functional.cross_entropy(output, target.view(-1), reduction="sum")
    if task == "multilabel":
        return functional.binary_cross_entropy_with_logits(output, target, reduction="sum") / target.size(1)
    return functional.l1_loss(output, target, reduction="sum") / target.size(1)


def check_task(dataset: PackedDataset) -> None:
    """Raises unless the data set has a target per graph that a loss is known for."""
    if dataset.level != "graph":
        raise ValueError(f"`dataset` must have targets per graph, got {dataset!r}; nodes have `train_node`")
    if dataset.task not in TASKS:
        raise ValueError(f"`dataset.task` must be one of {list(TASKS)}, got {dataset.task!r}")


# Whether more is better, by metric.
LARGER_IS_BETTER = {"mae": False, "ap": True, "accuracy": True}


def score(metric: str, output: Tensor, target: Tensor) -> float:
    """The score of all outputs of a subset at once, so that a small last batch counts no more than its graphs.

    ``"mae"`` is the mean absolute error; ``"ap"`` the mean over labels of average precision, without the labels that
    all or none of the graphs have; ``"accuracy"`` the share of graphs whose largest output is their class. Nothing
    scores NaN.

    Shapes: ``output`` (B, T) or (B, classes), ``target`` (B, T) or (B,)

    >>> score("mae", torch.tensor([[1.0], [5.0]]), torch.tensor([[2.0], [2.0]]))
    2.0
    """
    from torchmetrics.functional import mean_absolute_error
    from torchmetrics.functional.classification import multiclass_accuracy

    if target.size(0) == 0:
        return float("nan")
    output = output.double()
    if metric == "mae":
        return float(mean_absolute_error(output, target.double()))
    if metric == "accuracy":
        return float(multiclass_accuracy(output, target.view(-1), output.size(1), average="micro"))
    labels = zip(output.t(), target.long().t(), strict=True)
    return float(torch.tensor([_average_precision(*each) for each in labels], dtype=torch.float64).nanmean())


def _average_precision(output: Tensor, target: Tensor) -> float:
    from torchmetrics.functional.classification import binary_average_precision

    if bool((target == target[0]).all()):
        return float("nan")
    # torchmetrics takes a sigmoid of logits, which makes large ones equal; only their order counts
    rank = torch.unique(output, return_inverse=True)[1].double()
    return float(binary_average_precision(rank / rank.max().clamp(min=1), target))


def check_metric(metric: str) -> None:
    """Raises unless the metric is one of those known."""
    if metric not in LARGER_IS_BETTER:
        raise ValueError(f"`dataset.metric` must be one of {sorted(LARGER_IS_BETTER)}, got {metric!r}")
