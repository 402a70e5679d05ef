"""Run files: reads and writes the options of ``graphprism train`` as TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

from graphprism._checks import check_type
from graphprism._extras import needs_extra
from graphprism._files import write_whole
from graphprism._text import suggest
from graphprism.training import Run

# Options with several values: lists in the file, comma-separated on the command line.
_SEVERAL = ("model", "lr", "seeds", "folds")
_PATHS = ("data", "out")
# Stands for None, which TOML lacks.
NONE = "none"


def read_run_file(path: Path, options: Sequence[str]) -> dict[str, Any]:
    """Options by name, as the command line would give them.

    Args:
        path: The file.
        options: Names of options that are accepted beside the fields of `Run`.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is not TOML, or has an unknown name.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    try:
        values = _parse(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: must be a file in TOML ({str(error).splitlines()[0]})") from None
    known = {*options, *_SEVERAL, *(each.name for each in fields(Run))} - {"seed", "fold"}
    found = {}
    for written, value in values.items():
        name = written.replace("-", "_")
        if name not in known:
            raise ValueError(f"{path}: {written!r} is no option of a run{suggest(name, known)}")
        found[name] = _value(path, name, value)
    return found


def _value(path: Path, name: str, value: Any) -> Any:
    if name in _SEVERAL:
        return ",".join(str(each) for each in (value if isinstance(value, list) else [value]))
    if name in _PATHS:
        check_type(f"{path}: {name}", value, str, "a path")
        return Path(value)
    if isinstance(value, list | dict):
        raise ValueError(f"{path}: `{name}` must be one value, got {value!r}")
    return value


def _parse(text: str) -> dict[str, Any]:
    try:
        toml = import_module("tomllib")
    except ModuleNotFoundError:  # Python 3.10
        with needs_extra("a run file"):
            toml = import_module("tomli")
    found: dict[str, Any] = toml.loads(text)
    return found


def write_run_file(path: Path, runs: Sequence[Run]) -> None:
    """Writes all settings of a grid of runs, including defaults, which may change later."""
    settings: dict[str, Any] = {
        name: value for name, value in runs[0].to_dict().items() if name not in (*_SEVERAL, "seed", "fold")
    }
    several: dict[str, list[Any]] = {
        "model": [run.model for run in runs],
        "lr": [run.lr for run in runs],
        "seeds": [run.seed for run in runs],
        "folds": [run.fold for run in runs],
    }
    unique = {name: list(dict.fromkeys(values)) for name, values in several.items()}
    lines = [f"{name} = {_toml(value)}" for name, value in {**unique, **settings}.items()]
    write_whole(path, "\n".join(["# graphprism train FILE runs this again.", *lines]) + "\n", "a run file")


def _toml(value: Any) -> str:
    if value is None:
        return f'"{NONE}"'
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float):
        text = repr(value)
        return text if "." in text or "n" in text else text.replace("e", ".0e")
    return json.dumps(value, ensure_ascii=False)  # TOML writes strings, integers and booleans as JSON does


def merged_options(given: Mapping[str, Any], defaults: set[str], from_file: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the command line, with defaults replaced by those of a file."""
    return {**given, **{name: value for name, value in from_file.items() if name not in given or name in defaults}}
