"""The page of the gallery: every script of examples/ with its text, in the order of tools/gallery.py."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from gallery import EXAMPLES, NAMES  # noqa: E402

HEAD = """# Gallery

Each script runs by itself, `python examples/NAME.py`, without a network and without data of its own, in less than 20 s
on one core, and ends in a table or a picture. `make gallery` runs all of them, `make notebooks` makes a notebook of
each in `outputs/notebooks`.
"""


def page() -> str:
    """Every script below the first words of its docstring."""
    return "\n".join([HEAD, *map(_section, NAMES)])


def _section(name: str) -> str:
    source = (EXAMPLES / f"{name}.py").read_text("utf-8")
    tree = ast.parse(source)
    summary, _, rest = (ast.get_docstring(tree) or "").partition("\n\n")
    title, _, claim = " ".join(summary.split()).partition(": ")
    code = "\n".join(source.splitlines()[tree.body[0].end_lineno or 0 :]).replace("# %%\n", "").strip()
    return (
        f"## {title}\n\n{claim[:1].upper()}{claim[1:]}\n\n{rest}\n\n"
        f"::::{{dropdown}} examples/{name}.py\n```python\n{code}\n```\n::::\n"
    )
