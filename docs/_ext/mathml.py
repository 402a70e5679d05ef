"""Formulas as MathML: every browser draws it without a script, a font or a network."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

# What the converter does not know, in what it does.
REPLACED = {r"\bar{": r"\overline{", r"\big(": "(", r"\big)": ")", r"\Big(": r"\left(", r"\Big)": r"\right)"}


def mathml(latex: str, display: str) -> str:
    """One formula; ``display`` is ``inline`` or ``block``."""
    for old, new in REPLACED.items():
        latex = latex.replace(old, new)
    return convert(latex, display=display)


def inline_formula(translator: Any, node: nodes.Element) -> None:
    """Writes a formula of a sentence."""
    translator.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def block_formula(translator: Any, node: nodes.Element) -> None:
    """Writes a formula on a line of its own, which scrolls where the page is narrow."""
    translator.body.append(f'<div class="formula">{mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Adds the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (inline_formula, None), (block_formula, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
