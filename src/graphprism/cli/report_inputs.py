"""Files that a report is made of."""

from __future__ import annotations

import json
from pathlib import Path

from graphprism.results import TableResult


def read_tables(folder: Path) -> list[TableResult]:
    """All tables of a folder by name; a file that is no table is an error that names it."""
    return [_table(path) for path in sorted(folder.glob("*.json"))]


def read_figures(folder: Path) -> dict[str, str]:
    """SVG texts by title: ``figure-2/figure-2.svg`` and its like, with what the JSON beside it says of the settings."""
    paths = sorted(folder.glob("figure-*/figure-*.svg"))
    return {_title(path): path.read_text("utf-8", errors="replace") for path in paths if path.stem == path.parent.name}


def _table(path: Path) -> TableResult:
    try:
        return TableResult.from_json(path.read_text("utf-8"))
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path}: not a table; run its command again or remove the file") from error


def _title(path: Path) -> str:
    name = path.stem.replace("-", " ").capitalize()
    try:
        spec = json.loads(path.with_suffix(".json").read_text("utf-8"))["spec"]
        return f"{name}: {spec['seeds']} seeds, {spec['layers']} layers, {spec['graphs']}, split by {spec['split']}"
    except (OSError, ValueError, TypeError, KeyError):
        return name
