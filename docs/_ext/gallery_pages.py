"""A page for each script of the gallery, and the list of them."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from gallery import EXAMPLES, NAMES


def page(path: Path) -> str:
    """One script: what it shows, how to run it, its cells with their comments as text."""
    source = path.read_text("utf-8")
    text = ast.get_docstring(ast.parse(source)) or path.stem
    title, _, rest = text.partition(":")
    first = (rest or title).strip()
    parts = [f"# {title.strip()}", first[:1].upper() + first[1:], f"```bash\npython examples/{path.name}\n```"]
    for cell in re.split(r"^# %%[^\n]*\n", source, flags=re.MULTILINE)[1:]:
        code = re.sub(r"\A(?:#[^\n]*\n)*", "", cell)
        words = re.sub(r"^# ?", "", cell[: len(cell) - len(code)], flags=re.MULTILINE).strip()
        parts += [words, f"```python\n{code.strip()}\n```" if code.strip() else ""]
    return "\n\n".join(filter(None, parts)) + "\n"


def scripts() -> list[Path]:
    """In the order in which a newcomer reads them."""
    return [EXAMPLES / f"{name}.py" for name in NAMES]


def pages(index: str) -> dict[str, str]:
    """All scripts; ``index`` is the text of examples/README.md with links to these pages."""
    names = "\n".join(path.stem for path in scripts())
    contents = f"{index.rstrip()}\n\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"
    return {"index": contents, **{path.stem: page(path) for path in scripts()}}
