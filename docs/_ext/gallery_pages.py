"""A page for each script of the gallery, and the list of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


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
    """All but the demo, which `make demo` runs."""
    return sorted(path for path in EXAMPLES.glob("*.py") if path.stem != "demo")


def pages(index: str) -> dict[str, str]:
    """All scripts; ``index`` is the text of examples/README.md with links to these pages."""
    names = "\n".join(path.stem for path in scripts())
    contents = f"{index.rstrip()}\n\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"
    return {"index": contents, **{path.stem: page(path) for path in scripts()}}
