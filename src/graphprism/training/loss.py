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
