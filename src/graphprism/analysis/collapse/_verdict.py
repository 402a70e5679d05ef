"""One sentence on what a table by layer shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import takewhile

from graphprism.analysis.collapse.layer_collapse import LayerCollapse

# Rank-one distance under which a layer counts as collapsed to one signal.
RANK_ONE_BELOW = 1e-2
# Share of the first layer's rank-one distance under which the last layer's counts as a warning.
FALLS_BELOW = 0.25
# Share of the largest output gradient under which the gradient of a layer counts as vanished.
GRADIENT_VANISHES_BELOW = 1e-6


def verdict(rows: Sequence[LayerCollapse]) -> str:
    """What is wrong with the model, or that nothing is. Layers that can only have rank one are not judged by rank."""
    ranked = [row for row in rows if row.state == "ok" and row.possible_rank > 1]
    findings = [
        _forward("not finite", rows, lambda row: row.state == "not finite"),
        _forward("zero collapse", rows, lambda row: row.state == "zero collapse"),
        _forward("rank collapse", ranked, lambda row: row.rank_one_distance < RANK_ONE_BELOW) or _falling(ranked),
        _backward(rows),
    ]
    return "; ".join(filter(None, findings)) or "healthy"


def thresholds() -> str:
    """The numbers behind the verdict, as a sentence."""
    return (
        f"rank collapse: rank-one distance below {RANK_ONE_BELOW:g}, "
        f"on the way to it: below {FALLS_BELOW:g} of the first; "
        f"vanishing: output gradient below {GRADIENT_VANISHES_BELOW:g} of the largest"
    )


def _forward(what: str, rows: Sequence[LayerCollapse], bad: Callable[[LayerCollapse], bool]) -> str:
    """Where a run of bad layers that lasts to the end begins, or how many there are elsewhere."""
    to_the_end = list(takewhile(bad, reversed(rows)))
    if to_the_end:
        return f"{what} from layer {to_the_end[-1].layer} ({to_the_end[-1].name}) on"
    count = sum(map(bad, rows))
    return f"{what} at {count} of {len(rows)} layers, not at the last" if count else ""


def _falling(ranked: Sequence[LayerCollapse]) -> str:
    """A warning where the last layer is much nearer to one signal than the first."""
    if not ranked or not ranked[-1].rank_one_distance < FALLS_BELOW * ranked[0].rank_one_distance:
        return ""
    first, last = ranked[0].rank_one_distance, ranked[-1].rank_one_distance
    return f"on the way to rank collapse: the rank-one distance falls from {first:.2g} to {last:.2g}"


def _backward(rows: Sequence[LayerCollapse]) -> str:
    """Before which layer the gradients have vanished on their way to the input, or how many have elsewhere."""
    norms = [(row, row.output_gradient) for row in rows if row.output_gradient is not None]
    broken = sum(not math.isfinite(norm) for _, norm in norms)
    if broken:
        return f"gradients are not finite at {broken} of {len(norms)} layers"
    largest = max((norm for _, norm in norms), default=math.nan)
    if largest == 0:
        return "gradients are zero at every layer"
    vanished = [norm < GRADIENT_VANISHES_BELOW * largest for _, norm in norms]
    if not any(vanished):
        return ""
    first_seen = vanished.index(False)
    if first_seen == 0:
        return f"gradients vanish at {sum(vanished)} of {len(norms)} layers, not at the first"
    return f"gradients vanish before layer {norms[first_seen][0].layer} ({norms[first_seen][0].name})"
