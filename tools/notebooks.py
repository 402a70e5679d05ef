"""Converts the gallery's scripts to notebooks: ``python tools/notebooks.py [FOLDER]``, by default outputs/notebooks.

A line ``# %%`` begins a cell; comments right after it are its text. The docstring is the first text. A script that
starts itself again as other processes (it reads ``__file__``) is written to a file by its notebook and run from there.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

from gallery import EXAMPLES, NAMES, ROOT

FOLDER = ROOT / "outputs" / "notebooks"
# Shows the picture below the last cell: scripts save it and print its path.
SHOW = "from IPython.display import SVG\n\nSVG(filename=str(path))"


def notebook(source: str, name: str) -> dict[str, Any]:
    """The notebook of a script, in version 4.5 of the format."""
    tree = ast.parse(source)
    title, _, rest = (ast.get_docstring(tree) or "").partition("\n\n")
    parts = [("markdown", f"# {' '.join(title.split())}" + (f"\n\n{rest}" if rest else ""))]
    if "__file__" in source:
        parts += [("code", f"%%writefile {name}.py\n{source.strip()}"), ("code", f"!python {name}.py")]
    else:
        body = "\n".join(source.splitlines()[tree.body[0].end_lineno or 0 :])
        for block in body.split("# %%\n")[1:]:
            parts += _cells(block)
        if "save_figure" in source:
            parts.append(("code", SHOW))
    return {
        "cells": [_cell(number, *part) for number, part in enumerate(parts)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cells(block: str) -> list[tuple[str, str]]:
    """Text and code between two cell marks."""
    lines = block.strip("\n").splitlines()
    count = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    text = "\n".join(line.removeprefix("#").strip() for line in lines[:count])
    code = "\n".join(lines[count:]).strip("\n")
    return [part for part in (("markdown", text), ("code", code)) if part[1]]


def _cell(number: int, kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "cell_type": kind,
        "id": f"cell-{number}",
        "metadata": {},
        "source": text.splitlines(keepends=True),
    }
    return {**cell, "execution_count": None, "outputs": []} if kind == "code" else cell


def main(folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        made = notebook((EXAMPLES / f"{name}.py").read_text("utf-8"), name)
        path = folder / f"{name}.ipynb"
        path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", "utf-8")
        print(path)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
