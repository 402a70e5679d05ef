"""The page of ``graphprism play``: one self-contained file. Needs no torch."""

from __future__ import annotations

import json
from importlib.resources import files

from graphprism.report.assets import policy
from graphprism.report.html import Html, tag

SCRIPTS = (
    "random.js",
    "graphs.js",
    "splits.js",
    "network.js",
    "certificate.js",
    "layout.js",
    "drawing.js",
    "chart.js",
    "app.js",
)


def page() -> str:
    """The text of the page, deterministic.

    >>> page().startswith("<!doctype html>") and "https://" not in page()
    True
    """
    style, script = _text("style.css"), "\n".join(map(_text, SCRIPTS))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy(style, script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="description", content="Watch signals flow through 128 layers of a graph network."),
        tag("title", "graphprism: play"),
        tag("style", Html(style)),
    )
    graphs = tag("script", Html(json.dumps(stored_graphs())), type="application/json", id="graphs")
    body = tag("body", Html(_text("body.html")), graphs, tag("script", Html(script)))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def stored_graphs() -> dict[str, dict[str, list[list[int]]]]:
    """The stored graphs: undirected edges, number of nodes and symbols of atoms."""
    graphs: dict[str, dict[str, list[list[int]]]] = json.loads(_text("graphs.json"))
    return graphs


def _text(name: str) -> str:
    # Normalise line endings: browsers do so before they check the hash in the policy.
    return files("graphprism.play").joinpath("assets", name).read_text("utf-8").replace("\r\n", "\n")
