"""Writes expected values: ``python tests/pins/make_pins.py NAME...``, for a change of behaviour that is meant.

Each ``test_NAME.py`` beside this file has a ``measure`` that gives what ``NAME.json`` holds.
"""

import importlib
import json
import os
import sys
import warnings
from pathlib import Path

# The tests run with one thread as well; it has to be set before torch is loaded.
os.environ["OMP_NUM_THREADS"] = "1"
ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.pins.pinned import FOLDER, as_json, path_of  # noqa: E402 - found by the line above

# A list up to this many characters stands on one line.
_LINE = 110


def text_of(value: object, indent: str = "") -> str:
    """JSON with an entry per line, and what fits on a line on one."""
    short = json.dumps(value)
    if not isinstance(value, dict | list) or not value or len(indent) + len(short) <= _LINE:
        return short
    keys = [f"{json.dumps(key)}: " for key in value] if isinstance(value, dict) else [""] * len(value)
    values = value.values() if isinstance(value, dict) else value
    lines = [f"{indent} {key}{text_of(each, indent + ' ')}" for key, each in zip(keys, values, strict=True)]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([opening, ",\n".join(lines), f"{indent}{closing}"])


def main(names: list[str]) -> None:
    known = sorted(path.stem.removeprefix("test_") for path in FOLDER.glob("test_*.py"))
    unknown = sorted(set(names) - set(known))
    if unknown or not names:
        sys.exit(f"names must be among {', '.join(known)}, got {', '.join(unknown) or 'none'}")
    warnings.simplefilter("ignore")
    for name in names:
        measured = as_json(importlib.import_module(f"tests.pins.test_{name}").measure())
        path_of(name).write_text(text_of(measured) + "\n", "utf-8")
        print(f"{path_of(name).relative_to(ROOT)}: written")


if __name__ == "__main__":
    main(sys.argv[1:])
