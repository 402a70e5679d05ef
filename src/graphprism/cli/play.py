"""``graphprism play``."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from graphprism._files import write_whole
from graphprism.cli.arguments import exit_on_user_error
from graphprism.play import page


def play(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The page to write.")] = Path("play.html"),
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open it in a browser, where there is one.")] = True,
) -> None:
    """Write an interactive page: signals on a graph through up to 128 layers, with and without a split.

    One file that works offline. Its URL holds all settings and can be shared with the file.
    """
    with exit_on_user_error():
        if out.is_dir():
            raise ValueError(f"--out must be a file such as {out / 'play.html'}, got a folder")
        write_whole(out, page(), "the page")
    opened = show and _has_display() and webbrowser.open(out.resolve().as_uri())
    typer.echo(f"The page is in {out}{'' if opened else '; open it in a browser'}.")


def _has_display() -> bool:
    """Whether there is a display; without one Python would start a text browser in this terminal."""
    windows = sys.platform in ("win32", "cygwin", "darwin")
    return windows or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
