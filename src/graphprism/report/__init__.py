"""Results as one HTML page that needs no network, no other file and no torch, or as a page of Markdown."""

from __future__ import annotations

from graphprism.report.markdown import paper_page
from graphprism.report.page import page

__all__ = ["page", "paper_page"]
