"""The command line: parse, call, print."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs ``graphprism``; where a package is missing, an error names it."""
    try:
        # Commands print with rich and load it when they are called, which is too late to say that it is missing.
        import rich  # noqa: F401

        from graphprism.cli.app import app
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("typer", "rich"):
            raise
        print(f'error: the command line needs {package}: pip install "graphprism[demo]"', file=sys.stderr)
        sys.exit(2)
    app(prog_name="graphprism")
