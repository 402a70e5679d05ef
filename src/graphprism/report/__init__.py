"""Results as one self-contained HTML page, or as Markdown. Needs no torch."""

from __future__ import annotations

from graphprism.report.markdown import paper_page
from graphprism.report.page import page

__all__ = ["page", "paper_page"]
