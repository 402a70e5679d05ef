"""The optimiser of a run."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from graphprism.training.run import Run

_CLASSES: dict[str, type[torch.optim.Optimizer]] = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}


def make_optimizer(run: Run, parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """AdamW or Adam with one fused kernel a step, which CPUs and GPUs both have."""
    make = _CLASSES[run.optimizer]
    return make(parameters, lr=run.lr, weight_decay=run.weight_decay, fused=True)  # type: ignore[call-arg]
