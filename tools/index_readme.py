"""The README for a package index: without the picture, relative links replaced by file names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def index_readme(text: str) -> str:
    """Replaces relative links; links to the web and within the page stay."""
    text = re.sub(r"^!\[[^\]]*\]\((?!https:)[^)]*\)\n+", "", text, flags=re.MULTILINE)
    return re.sub(r"\[([^\]]+)\]\((?!https:|#)([^)]+)\)", r"\1 (`\2`)", text)


class IndexReadme(MetadataHookInterface):
    """Called by hatchling whenever a wheel or an sdist is built."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Sets the README of the metadata."""
        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": index_readme(text)}
