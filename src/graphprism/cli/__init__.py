"""The command line: parse, call, print."""

from __future__ import annotations

import sys

from graphprism._extras import MissingExtraError, needs_extra


def main() -> None:
    """Runs ``graphprism``; where a package is missing, an error names it."""
    try:
        with needs_extra("the command line"):
            # Commands print with rich and load it when they are called, which is too late to say that it is missing.
            import rich  # noqa: F401

            from graphprism.cli.app import app
    except MissingExtraError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    app(prog_name="graphprism")
