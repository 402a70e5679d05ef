"""Pages that are written from the code before the build: layers, commands, public names, tables, measurements.

They lie in docs/generated, which is not part of the repository.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import api_pages
import command_page
import gallery_page
import layer_pages
from sphinx.application import Sphinx

from graphprism.play import page as play_page

ROOT = Path(__file__).parents[2]
# Where a page of the repository is in the documentation.
PLACES = {
    "benchmarks/README.md": "measurements.md",
    "benchmarks/PAPER.md": "tables.md",
    "CONVERSION.md": "conversion.md",
}


def adopted(path: str, title: str = "") -> str:
    """A page of the repository; links to files that the documentation does not hold become their text."""
    text = (ROOT / path).read_text("utf-8")
    if title:
        text = re.sub(r"\A# .*", f"# {title}", text)

    def link(found: re.Match[str]) -> str:
        words, target = found["words"], found["target"]
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        place = (Path(path).parent / target.partition("#")[0]).as_posix()
        return f"[{words}]({PLACES[place]})" if place in PLACES else words

    return re.sub(r"(?<!!)\[(?P<words>[^\]]+)\]\((?P<target>[^)\s]+)\)", link, text)


def pages() -> dict[str, str]:
    """Path below docs/generated and text of every page."""
    return {
        **{f"layers/{name}.md": text for name, text in layer_pages.pages().items()},
        **{f"api/{name}.md": text for name, text in api_pages.pages().items()},
        "commands.md": command_page.page(),
        "gallery.md": gallery_page.page(),
        "tables.md": adopted("benchmarks/PAPER.md"),
        "measurements.md": adopted("benchmarks/README.md", "All measurements"),
        "conversion.md": adopted("CONVERSION.md"),
        "changelog.md": adopted("CHANGELOG.md"),
        "contributing.md": adopted("CONTRIBUTING.md"),
        "security.md": adopted("SECURITY.md"),
    }


def write(app: Sphinx) -> None:
    """Writes what has changed, and removes what is gone."""
    folder = Path(app.srcdir) / "generated"
    texts = pages()
    for path in folder.rglob("*.md"):
        if path.relative_to(folder).as_posix() not in texts:
            path.unlink()
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def write_play_page(app: Sphinx, exception: Exception | None) -> None:
    """The page to play with, beside the others."""
    if exception is None and app.builder.format == "html":
        (Path(app.outdir) / "play-page.html").write_text(play_page(), "utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Writes pages before Sphinx looks for them."""
    app.connect("builder-inited", write)
    app.connect("build-finished", write_play_page)
    app.connect("missing-reference", api_pages.resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
