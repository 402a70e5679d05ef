"""Style and file formats of all figures."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from graphprism._extras import needs_extra
from graphprism._files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Three of viridis, dark to light, then orange and grey: distinct for every kind of colour vision.
COLOURS = ("#481567", "#287d8e", "#73d055", "#e69f00", "#6e6e6e")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure in inches; made without pyplot, so that no global figure stays open."""
    with needs_extra("a picture"):
        from matplotlib.figure import Figure
    return Figure(figsize=(width, height), layout="constrained")


FORMATS = (".png", ".svg")


def check_format(path: Path) -> None:
    """Raises `ValueError` unless the file name has the suffix of a supported format."""
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"the name of a picture must end in {' or '.join(FORMATS)}, got {path.name!r}")


def save_figure(figure: Figure, path: Path) -> None:
    """Writes a PNG or an SVG, chosen by the suffix; the same figure gives the same bytes."""
    with needs_extra("a picture"):
        import matplotlib

    check_format(path)
    content = io.BytesIO()
    svg = path.suffix.lower() == ".svg"
    # Otherwise an SVG would contain the time and random identifiers.
    with matplotlib.rc_context({"svg.hashsalt": "graphprism"}):
        figure.savefig(content, format="svg" if svg else "png", dpi=160, metadata={"Date": None} if svg else None)
    write_whole(path, content.getvalue(), "figures")
