"""The largest width within a budget of parameters."""

from __future__ import annotations

from collections.abc import Callable

from graphprism._checks import check_function, check_positive, check_whole


def fit_width(budget: int, count: Callable[[int], int], smallest: int = 1) -> int:
    """The largest width whose number of parameters, ``count(width)``, is at most ``budget``.

    Args:
        budget: Most parameters allowed.
        count: Number of parameters for a width; must increase with it.
        smallest: The first width to try.

    >>> fit_width(500_000, lambda d: 8 * (d * d + d) + 32 * d + d + 1)  # GCN of eight layers on ZINC
    247
    """
    check_whole("budget", budget)
    check_positive("smallest", smallest)
    check_function("count", count, "a function of the width")
    if count(smallest) > budget:
        least = f"a width of {smallest}, which takes {count(smallest):,} parameters"
        raise ValueError(f"`budget` must allow {least}, got {budget:,}")
    fits, too_wide = smallest, 2 * smallest
    while count(too_wide) <= budget:
        fits, too_wide = too_wide, 2 * too_wide
        if too_wide > 2 * budget:
            raise ValueError(f"`count` must increase with the width, got {count(fits):,} at {fits:,}")
    while too_wide - fits > 1:
        middle = (fits + too_wide) // 2
        if count(middle) <= budget:
            fits = middle
        else:
            too_wide = middle
    return fits
