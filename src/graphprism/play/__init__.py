"""An interactive page: signals on a graph, through many layers with and without a split."""

from __future__ import annotations

from graphprism.play.page import page

__all__ = ["page"]
