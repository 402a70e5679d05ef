"""The loss whose gradients a report shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from graphprism.analysis.collapse._call_model import attribute

# Not `Tensor`: what a caller's function gives is checked.
Loss = Callable[[Any, Any], Any]


def form_loss(output: Any, data: Any, labels: Tensor | None, loss: Loss | None) -> tuple[Tensor | None, str]:
    """The loss and its name, or None and the reason why there is none."""
    value: Any
    labels = attribute(data, "y") if labels is None else labels
    output = output[0] if loss is None and isinstance(output, (tuple, list)) and output else output
    output, labels, where = _on_training_nodes(output, labels, data)
    if loss is None:
        value, name = _default_loss(output, labels)
    else:
        value, name = loss(output, labels), getattr(loss, "__name__", type(loss).__name__)
    if loss is None and value is None:
        return None, f"no loss: {name}"
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise ValueError(f"`loss` must give one number as a tensor, got {_describe(value)}")
    return (value.sum(), name + where) if value.requires_grad else (None, "no loss: it depends on no layer")


def _on_training_nodes(output: Any, labels: Any, data: Any) -> tuple[Any, Any, str]:
    """Restricts output and labels to ``data.train_mask`` (the first split of several) where all three fit."""
    mask = attribute(data, "train_mask")
    if not all(isinstance(value, Tensor) and value.dim() for value in (mask, output, labels)):
        return output, labels, ""
    mask = mask[:, 0] if mask.dim() == 2 else mask
    if mask.dtype != torch.bool or not mask.size(0) == output.size(0) == labels.size(0):
        return output, labels, ""
    return output[mask], labels[mask], " over the training nodes"


def _default_loss(output: Any, labels: Any) -> tuple[Tensor | None, str]:
    if labels is None:
        return None, "labels are missing"
    if not isinstance(labels, Tensor) or not isinstance(output, Tensor) or not output.is_floating_point():
        return None, "output and labels must be tensors, the output of a floating-point type"
    if output.numel() == 0:
        return None, "no output has a label"
    if (
        labels.is_floating_point()
        and labels.numel() == output.numel()
        and labels.squeeze().shape == output.squeeze().shape
    ):
        return functional.mse_loss(output, labels.reshape(output.shape).to(output.dtype)), "mean squared error"
    classes = labels.reshape(-1)
    if not labels.is_floating_point() and output.dim() == 2 and classes.numel() == output.size(0):
        low, high = int(classes.min()), int(classes.max())
        if low >= 0 and high < output.size(1):
            return functional.cross_entropy(output, classes.long()), "cross entropy"
    return None, f"labels of shape {list(labels.shape)} and {labels.dtype} do not fit the output {list(output.shape)}"


def _describe(value: object) -> str:
    return f"shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
