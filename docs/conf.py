"""Settings of the documentation; `make docs` builds it into build/docs, which opens from disk without a network."""

import os
import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
# Figures are drawn into files, and pages show the same numbers on every machine.
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from graphprism import __version__  # noqa: E402

project = "graphprism"
author = "The graphprism authors"
copyright = "The graphprism authors"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "mathml",
    "pictures",
    "generated_pages",
]
exclude_patterns = ["_ext"]
# A name in single backticks is a link where the reference has it.
default_role = "py:obj"
nitpicky = False

myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_attr_annotations = False
add_module_names = False
viewcode_line_numbers = True
html_math_renderer = "mathml"

html_theme = "furo"
html_title = "graphprism"
html_static_path = ["_static"]
html_css_files = ["graphprism.css"]
html_favicon = "_static/prism.svg"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_theme_options = {
    "sidebar_hide_name": False,
    "light_css_variables": {
        "color-brand-primary": "#5546d6",
        "color-brand-content": "#5546d6",
        "color-brand-visited": "#5546d6",
        "font-stack": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif",
    },
    "dark_css_variables": {
        "color-brand-primary": "#b3a8ff",
        "color-brand-content": "#b3a8ff",
        "color-brand-visited": "#b3a8ff",
        "color-background-primary": "#0f1120",
        "color-background-secondary": "#141728",
        "color-background-border": "#262b42",
    },
    "light_logo": "prism.svg",
    "dark_logo": "prism.svg",
}
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

# Several spaces after a word: a table, whose lines must not wrap.
_COLUMNS = re.compile(r"\S {3,}\S")


def mark_columns(app: Sphinx, doctree: nodes.document) -> None:
    """Gives blocks of text with columns the class that keeps their lines whole; sentences wrap on a phone."""
    for block in doctree.findall(nodes.literal_block):
        if block.get("language") == "text" and len(_COLUMNS.findall(block.astext())) > 1:
            block["classes"].append("columns")


def setup(app: Sphinx) -> None:
    """Connects `mark_columns`."""
    app.connect("doctree-read", mark_columns)
