"""Learning rates by epoch, as a table of schedules."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from graphprism._checks import check_whole

if TYPE_CHECKING:
    from graphprism.training.run import Run

# Factor of the learning rate after the warm-up, as a function of the share of the remaining epochs done, in [0, 1).
SCHEDULES: Mapping[str, Callable[[float], float]] = MappingProxyType(
    {
        "cosine": lambda share: max(0.0, 0.5 * (1 + math.cos(math.pi * share))),
        "constant": lambda share: 1.0,
    }
)
# First factor of the published schedule, instead of 0.
_FIRST_FACTOR = 1e-6


def learning_rate(run: Run, epoch: int) -> float:
    r"""The learning rate of epoch ``epoch``, counted from 0; it is the same for all steps of an epoch.

    .. math:: \eta_e = \eta \cdot \begin{cases} \max(10^{-6}, e / w) & e < w \\
        \frac{1}{2} \big(1 + \cos \pi \frac{e - w}{E - w} \big) & \text{else} \end{cases}

    where :math:`\eta` is ``run.lr``, :math:`w` is ``run.warmup`` and :math:`E` is ``run.epochs``. So the first warm-up
    epoch has a rate of nearly 0, the epoch after the warm-up has :math:`\eta`, and the cosine would reach 0 in the
    epoch after the last. With the schedule ``"constant"`` the second line is 1.

    >>> from graphprism.training import Run
    >>> [round(learning_rate(Run(lr=1.0, warmup=2, epochs=6), epoch), 3) for epoch in range(6)]
    [0.0, 0.5, 1.0, 0.854, 0.5, 0.146]
    """
    if not hasattr(run, "warmup"):  # `Run` imports this file
        raise TypeError(f"`run` must be a Run, got {type(run).__name__}")
    check_whole("epoch", epoch)
    if epoch < run.warmup:
        return run.lr * max(_FIRST_FACTOR, epoch / run.warmup)
    share = (epoch - run.warmup) / max(1, run.epochs - run.warmup)
    return run.lr * SCHEDULES[run.schedule](share)
