"""The command line: parse, call, print."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from graphprism._extras import MissingExtraError, needs_extra


def main() -> None:
    """Runs ``graphprism``; an error names a missing package."""
    with exit_on_missing_extra("the command line"):
        # Commands import rich lazily, too late for this error.
        import rich  # noqa: F401

        from graphprism.cli.app import app
    with exit_on_missing_extra():
        app(prog_name="graphprism")


@contextmanager
def exit_on_missing_extra(what: str = "this command") -> Iterator[None]:
    """Prints the missing package and the command that installs it; exit code 2."""
    try:
        with needs_extra(what):
            yield
    except MissingExtraError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
