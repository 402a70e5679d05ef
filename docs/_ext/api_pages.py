"""The reference: a page for each package, from its ``__all__``, API.md and the docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils import nodes

ROOT = Path(__file__).parents[2]


@cache
def listed() -> dict[str, dict[str, str]]:
    """Packages, and for each its public names with their lines, as in API.md."""
    text = (ROOT / "API.md").read_text("utf-8")
    sections = re.split(r"^## `(graphprism[\w.]*)`.*$", text, flags=re.MULTILINE)
    return {
        package: dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", part, re.MULTILINE))
        for package, part in zip(sections[1::2], sections[2::2], strict=True)
    }


@cache
def homes() -> dict[tuple[str, str], str]:
    """The package whose page describes a name of a package: the one that defines it, else the first that lists it."""
    first: dict[int, str] = {}
    for package, names in sorted(listed().items(), key=lambda item: -len(item[0])):
        for name in names:
            value = getattr(importlib.import_module(package), name)
            module = getattr(value, "__module__", None) or ""
            if not isinstance(value, ModuleType) and (module.startswith(f"{package}.") or id(value) not in first):
                is_better = module.startswith(f"{package}.") and not module.startswith(f"{first.get(id(value), '-')}.")
                first[id(value)] = package if is_better or id(value) not in first else first[id(value)]
    return {
        (package, name): first.get(id(getattr(importlib.import_module(package), name)), package)
        for package, names in listed().items()
        for name in names
    }


def directive(package: str, name: str) -> str:
    """How autodoc describes a name."""
    value = getattr(importlib.import_module(package), name)
    full = f"{package}.{name}"
    if isinstance(value, ModuleType):
        return f".. automodule:: {value.__name__}\n   :members:\n"
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
        members = "" if issubclass(value, BaseException) else "   :members:\n"
        return f".. {kind}:: {full}\n{members}"
    if inspect.isroutine(value):
        return f".. autofunction:: {full}\n"
    line = re.sub(r"`([^`]+)`", r"``\1``", listed()[package][name])
    return f".. py:data:: {full}\n\n   {line}\n"


def page(package: str) -> str:
    """One package."""
    module = importlib.import_module(package)
    first = (inspect.getdoc(module) or "").partition("\n\n")[0].replace("\n", " ")
    rows, described = [], []
    for name, line in sorted(listed()[package].items(), key=lambda item: item[0].lower()):
        home = homes()[package, name]
        value = getattr(module, name)
        if isinstance(value, ModuleType) and value.__name__ in listed():
            rows.append(f"| [`{name}`]({value.__name__}.md) | {line} |")
            continue
        target = value.__name__ if isinstance(value, ModuleType) else f"{home}.{name}"
        rows.append(f"| {{py:obj}}`{name} <{target}>` | {line} |")
        if home == package:
            described.append(directive(package, name))
    parts = [f"# `{package}`", first, "| name | what it is |\n|---|---|\n" + "\n".join(rows)]
    if described:
        parts.append("```{eval-rst}\n.. currentmodule:: " + package + "\n\n" + "\n".join(described) + "```")
    return "\n\n".join(parts) + "\n"


def pages() -> dict[str, str]:
    """All packages, and a page that lists them."""
    firsts = {
        name: (inspect.getdoc(importlib.import_module(name)) or "").partition("\n\n")[0].replace("\n", " ")
        for name in listed()
    }
    rows = "\n".join(f"| [`{name}`]({name}.md) | {first} |" for name, first in firsts.items())
    tree = "\n".join(listed())
    index = (
        "# Reference\n\nThe public names, from their docstrings; *[source]* shows the code. What is here is kept "
        "between versions with the same first two numbers; everything else is private.\n\n"
        f"| package | what it holds |\n|---|---|\n{rows}\n\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
    )
    return {"index": index, **{name: page(name) for name in listed()}}


@cache
def targets() -> dict[str, str]:
    """Full name of the description of a short or a public name."""
    found: dict[str, str] = {}
    for (package, name), home in homes().items():
        found.setdefault(name, f"{home}.{name}")
        found[f"{package}.{name}"] = f"{home}.{name}"
    return found


def resolve(app: Any, env: Any, node: nodes.Element, content: nodes.Element) -> nodes.Element | None:
    """A link for a name that another package describes; None leaves the text as it is."""
    if node.get("refdomain") != "py":
        return None
    target = targets().get(str(node.get("reftarget", "")).removeprefix("gp."))
    if target is None or target == node.get("reftarget"):
        return None
    domain = env.get_domain("py")
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, content)
