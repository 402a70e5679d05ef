"""Style sheet and script of the page, and the policy that allows these two and nothing else."""

from __future__ import annotations

import base64
from importlib.resources import files

from graphprism._files import sha256

STYLES = ("page.css", "tables.css", "curves.css", "print.css")
SCRIPTS = ("run_list.js", "chart.js", "curves.js")


def style() -> str:
    """The style sheet."""
    return _text(STYLES)


def script() -> str:
    """The script."""
    return _text(SCRIPTS)


def policy(style: str, script: str) -> str:
    """A Content-Security-Policy that forbids loading and allows only the style and script with these hashes."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _text(names: tuple[str, ...]) -> str:
    folder = files("graphprism.report.assets")
    # Normalise line endings: browsers do so before they check the hash.
    return "\n".join(folder.joinpath(name).read_text("utf-8").replace("\r\n", "\n") for name in names)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(bytes.fromhex(sha256(text))).decode()}"
