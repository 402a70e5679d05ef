"""From the strings of ``graphprism train`` to runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from itertools import product
from typing import Any

from graphprism.cli.suggest import suggest
from graphprism.cli.train_defaults import MODELS, OF_DATASET
from graphprism.training import Run

_SEEDS = re.compile(r"(\d+)(?:\.\.(\d+))?")
# Of a request, not of a run.
_SEVERAL = ("model", "lr", "seeds")


def train_runs(options: Mapping[str, Any]) -> list[Run]:
    """One run for each model, learning rate and seed, in this order.

    Args:
        options: Values by the names of `Run`, with None where nothing was said; ``model``, ``lr`` and ``seeds`` are
            strings of one or several. Names that a run does not have are left out.

    Raises:
        ValueError: A name or a number is not one.

    >>> [run.title for run in train_runs({"model": "gcn", "lr": "1e-3,1e-4", "seeds": "0..1", "layers": 4})][1:3]
    ['gcn, 4 layers, lr 0.001, seed 1, molecules', 'gcn, 4 layers, lr 0.0001, seed 0, molecules']
    """
    known = {each.name for each in fields(Run)} - {*_SEVERAL}
    said = {name: value for name, value in options.items() if name in known and value is not None}
    shared = {**OF_DATASET.get(said.get("dataset", "molecules"), {}), **said}
    models = [_model(name) for name in _parts("model", options["model"])]
    asked = options.get("lr")
    rates = [Run.lr] if asked is None else [_rate(text) for text in _parts("lr", asked)]
    seeds = parse_seeds(options["seeds"])
    return [Run(**shared, model=model, lr=lr, seed=seed) for model, lr, seed in product(models, rates, seeds)]


def parse_seeds(text: str) -> list[int]:
    """Seeds between commas, each a number or a range with both ends.

    >>> parse_seeds("0..2,7")
    [0, 1, 2, 7]
    """
    seeds: list[int] = []
    for part in _parts("seeds", text):
        found = _SEEDS.fullmatch(part)
        if found is None or int(found[2] or found[1]) < int(found[1]):
            raise ValueError(f"`seeds` must be such as 0, 0..8 or 0,1,5, got {text!r}")
        seeds += range(int(found[1]), int(found[2] or found[1]) + 1)
    return list(dict.fromkeys(seeds))


def _model(name: str) -> str:
    if name not in MODELS:
        raise ValueError(f"`model` must be one of {', '.join(MODELS)}, got {name!r}{suggest(name, MODELS)}")
    return name


def _rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"`lr` must be numbers between commas, got {text!r}") from None


def _parts(name: str, text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise ValueError(f"`{name}` must be one or several between commas, got {text!r}")
    return list(dict.fromkeys(parts))
