"""Results as one HTML page that needs no network, no other file and no torch."""

from __future__ import annotations

from graphprism.report.page import page

__all__ = ["page"]
