"""The sheet that pictures are drawn on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Three of viridis, dark to light, then orange and grey: told apart by every kind of colour vision.
COLOURS = ("#481567", "#287d8e", "#73d055", "#e69f00", "#6e6e6e")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure in inches; made without pyplot, so that no global figure stays open."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('a picture needs matplotlib: pip install "graphprism[demo]"') from error
    return Figure(figsize=(width, height), layout="constrained")
