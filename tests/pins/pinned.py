"""Expected values in JSON files beside this one, and how a measured value is compared with them."""

import json
import math
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.json"


def pinned(name: str) -> Any:
    """The committed values; only make_pins.py writes them."""
    return json.loads(path_of(name).read_text("utf-8"))


def as_json(value: Any) -> Any:
    """The value as JSON gives it back: lists in place of tuples, strings as keys."""
    return json.loads(json.dumps(value, allow_nan=False))


def differences(found: Any, expected: Any, rel: float = 0.0, floor: float = 0.0, where: str = "") -> list[str]:
    """A line for each place where two JSON values differ; floats may by ``rel`` of the larger one, or by ``floor``."""
    if isinstance(found, dict) and isinstance(expected, dict):
        lost = [f"{where}/{key}: missing" for key in expected if key not in found]
        new = [f"{where}/{key}: new" for key in found if key not in expected]
        shared = [key for key in expected if key in found]
        below = [
            line for key in shared for line in differences(found[key], expected[key], rel, floor, f"{where}/{key}")
        ]
        return [*lost, *new, *below]
    if isinstance(found, list) and isinstance(expected, list):
        if len(found) != len(expected):
            return [f"{where}: {len(expected)} entries expected, got {len(found)}"]
        pairs = enumerate(zip(found, expected, strict=True))
        return [line for number, (a, b) in pairs for line in differences(a, b, rel, floor, f"{where}/{number}")]
    # the type counts: 1, 1.0 and True are equal in Python
    if type(found) is type(expected):
        if isinstance(found, float) and math.isclose(found, expected, rel_tol=rel, abs_tol=floor):
            return []
        if found == expected:
            return []
    return [f"{where}: {expected!r} expected, got {found!r}"]
