"""The page of the command line, from the Typer application itself."""

from __future__ import annotations

import inspect
import re
from typing import Any

import typer

from graphprism.cli.app import app

ARROWS = re.compile(r"[<>]")


def words(text: str) -> str:
    """Text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;").replace("*", "\\*")


def default_of(parameter: Any, record: str) -> str:
    """What is taken without the option, as the help of the command says it."""
    found = re.search(r"\[default: (.*?)\]$", record)
    return found[1].strip("()") if found else ""


def parameters(command: Any, context: Any) -> str:
    """A table of arguments and options."""
    rows = []
    for each in command.params:
        record = each.get_help_record(context)
        if record is None or "--help" in each.opts:
            continue
        name, text = record
        text = re.sub(r"\s*\[default: .*?\]$", "", text)
        rows.append(f"| `{name}` | {words(text)} | {words(default_of(each, record[1]))} |".replace("`|", "` |"))
    rows = [row.replace(name, name) for row in rows]
    return "| option | what it does | default |\n|---|---|---|\n" + "\n".join(rows) if rows else ""


def sections(command: Any, context: Any, level: int) -> list[str]:
    """A command, and those below it."""
    path = context.command_path
    text = inspect.cleandoc(command.help or "").replace("\b", "").replace("*", "\\*")
    found = [f"{'#' * level} `{path}`", text]
    if not hasattr(command, "commands"):
        usage = " ".join(context.get_usage().split()).removeprefix("Usage: ")
        return [*found, f"```text\n{usage}\n```", parameters(command, context)]
    for name in sorted(command.commands):
        _, below, _ = command.resolve_command(context, [name])
        inner = below.make_context(name, [], parent=context, resilient_parsing=True)
        found += sections(below, inner, level + 1)
    return found


def page() -> str:
    """The whole page."""
    group = typer.main.get_command(app)
    context = group.make_context("graphprism", [], resilient_parsing=True)
    introduction = [
        "# The command line",
        "Every command with its options, from the program itself. `graphprism COMMAND --help` prints the same; "
        "`graphprism --install-completion` adds completion to your shell. An error of the user ends with exit code 2 "
        "and one sentence.",
    ]
    parts = sections(group, context, 1)[2:]
    return "\n\n".join(part for part in introduction + parts if part) + "\n"
