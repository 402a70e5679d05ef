"""The optimiser of a run."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable

import torch
from torch import Tensor

from graphprism.training.run import Run

_CLASSES: dict[str, type[torch.optim.Optimizer]] = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}


def make_optimizer(run: Run, parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """AdamW or Adam with one fused kernel a step, which CPUs and GPUs both have."""
    make = _CLASSES[run.optimizer]
    return make(parameters, lr=run.lr, weight_decay=run.weight_decay, fused=True)  # type: ignore[call-arg]


# What the published schedule begins with in place of 0.
_FIRST_FACTOR = 1e-6


def learning_rate(run: Run, epoch: int) -> float:
    r"""The learning rate of epoch ``epoch``, counted from 0; it is the same for all steps of an epoch.

    .. math:: \eta_e = \eta \cdot \begin{cases} \max(10^{-6}, e / w) & e < w \\
        \frac{1}{2} \big(1 + \cos \pi \frac{e - w}{E - w} \big) & \text{else} \end{cases}

    where :math:`\eta` is ``run.lr``, :math:`w` is ``run.warmup`` and :math:`E` is ``run.epochs``. So the first of the
    warm-up epochs trains with nearly nothing, the epoch after them with all of :math:`\eta`, and the cosine would reach
    0 in the epoch after the last. With the schedule ``"constant"`` the second line is 1.

    >>> [round(learning_rate(Run(lr=1.0, warmup=2, epochs=6), epoch), 3) for epoch in range(6)]
    [0.0, 0.5, 1.0, 0.854, 0.5, 0.146]
    """
    if epoch < run.warmup:
        return run.lr * max(_FIRST_FACTOR, epoch / run.warmup)
    if run.schedule == "constant":
        return run.lr
    progress = (epoch - run.warmup) / max(1, run.epochs - run.warmup)
    return run.lr * max(0.0, 0.5 * (1 + math.cos(math.pi * progress)))


def epoch_order(seed: int, epoch: int, n: int) -> Tensor:
    """A permutation of 0..n-1 that follows from ``seed`` and ``epoch`` alone, on the CPU.

    No random state is read or changed, so that a resumed run, and another engine, sees the same order.

    >>> epoch_order(0, 0, 5).tolist() == epoch_order(0, 0, 5).tolist()
    True
    """
    generator = torch.Generator().manual_seed(mixed_seed("order", seed, epoch))
    return torch.randperm(n, generator=generator)


def mixed_seed(*words: str | int) -> int:
    """A seed of 63 bits out of words and numbers: neighbours have nothing in common.

    >>> mixed_seed("order", 0, 1) == mixed_seed("order", 1, 0)
    False
    """
    return int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:8], "little") >> 1
