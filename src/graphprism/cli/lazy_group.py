"""A group of commands that loads the one that is called, and none to list them."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup


class LazyGroup(TyperGroup):
    """Takes a registered function for one that imports and returns the command: a function, or a `typer.Typer`.

    Lists of commands, ``--version`` and misspelt names so do not wait for torch. The docstring of a registered function
    is what the list says, and has to be the first sentence of the command's own.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command itself, loaded."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, None if listed is None or listed.callback is None else load(listed.name, listed.callback()), rest


def load(name: str | None, found: Any) -> Any:
    """The command of a function or of an application, as it is below a group."""
    parent = typer.Typer(callback=lambda: None)
    if isinstance(found, typer.Typer):
        parent.add_typer(found, name=name)
    else:
        parent.command(name=name)(found)
    return typer.main.get_group(parent).commands[name or ""]
