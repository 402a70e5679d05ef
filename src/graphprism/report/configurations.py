"""Groups runs that differ only in seed and fold."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphprism._text import counted, short
from graphprism.results import RunResult

# Runs that differ in nothing but these are repetitions of one configuration.
REPETITION = ("seed", "fold")
# Fields that the description of a run shows with their value, if set.
_TOLD = ("jk", "pe", "pe_encoder", "norm", "dropout", "lr")


def describe_run(run: Mapping[str, Any]) -> str:
    """Model, depth and other common settings, without seed and data set; missing fields are skipped.

    >>> describe_run({"model": "mrs-gcn", "split": "degree", "layers": 8, "residual": True, "lr": 0.001, "seed": 3})
    'mrs-gcn by degree, 8 layers, res, lr 0.001'
    """
    model, layers = str(run.get("model", "run")), run.get("layers")
    parts = [f"{model} by {run['split']}" if splits_edges(run) else model]
    parts += [counted(layers, "layer")] if layers is not None else []
    parts += ["res"] if run.get("residual") else []
    parts += [f"{name} {short(run[name])}" for name in _TOLD if run.get(name)]
    return ", ".join(parts)


def run_title(run: Mapping[str, Any]) -> str:
    """`describe_run` with seed and fold.

    >>> run_title({"model": "gcn", "layers": 1, "seed": 3, "fold": 0})
    'gcn, 1 layer, seed 3, fold 0'
    """
    return ", ".join([describe_run(run), *(f"{name} {run[name]}" for name in REPETITION if run.get(name) is not None)])


def splits_edges(run: Mapping[str, Any]) -> bool:
    """Whether the run splits edges: its model has several relations."""
    return "mrs" in str(run.get("model", "")) and bool(run.get("split"))


@dataclass(frozen=True)
class Configuration:
    """A configuration and its runs.

    Attributes:
        label: Unique among the configurations of its data set.
        runs: One for each seed, finished or not.
    """

    label: str
    runs: tuple[RunResult, ...]

    @property
    def family(self) -> tuple[str, str]:
        """Model and split."""
        run = self.runs[0].run
        return str(run.get("model")), str(run["split"]) if splits_edges(run) else ""

    @property
    def diverged(self) -> int:
        """Number of its runs that did not finish."""
        return sum(run.status != "finished" for run in self.runs)


def by_data_set(runs: Iterable[RunResult]) -> dict[tuple[str, str], list[RunResult]]:
    """Runs whose scores may be compared, by data set and metric; data that changed under one name are several sets."""
    runs = list(runs)
    changed = changed_data(runs)
    groups: dict[tuple[str, str], list[RunResult]] = defaultdict(list)
    for run in runs:
        name = data_set(run)
        groups[f"{name} (data {(run.data or 'unknown')[:9]})" if name in changed else name, run.metric].append(run)
    return dict(groups)


def changed_data(runs: Iterable[RunResult]) -> dict[str, Counter[str]]:
    """Data sets whose runs have different fingerprints, with the number of runs of each; ignores unknown ones."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for run in runs:
        if run.data is not None:
            found[data_set(run)][run.data] += 1
    return {name: counts for name, counts in found.items() if len(counts) > 1}


def data_set(run: RunResult) -> str:
    """Name of the data set of a run."""
    return str(run.run.get("dataset", "unknown"))


def configurations(runs: Iterable[RunResult]) -> list[Configuration]:
    """The configurations of one data set, in order of their first run."""
    groups: dict[str, list[RunResult]] = defaultdict(list)
    for run in runs:
        groups[json.dumps(_fields(run), sort_keys=True, default=str)].append(run)
    labels = _labels(groups.values())
    return [Configuration(label, tuple(group)) for label, group in zip(labels, groups.values(), strict=True)]


def _fields(run: RunResult) -> dict[str, Any]:
    """Fields of a configuration except those that are off: older results lack fields that were added later."""
    return {
        name: value
        for name, value in run.run.items()
        if name not in REPETITION and value is not None and value is not False
    }


def _labels(groups: Iterable[Sequence[RunResult]]) -> list[str]:
    """`describe_run`, followed by the fields that differ where descriptions are equal."""
    fields = [_fields(group[0]) for group in groups]
    alike: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in fields:
        alike[describe_run(each)].append(each)
    differing = {label: _differing(same) for label, same in alike.items()}
    return [", ".join([describe_run(each), *_named(each, differing[describe_run(each)])]) for each in fields]


def _differing(fields: Sequence[dict[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for each in fields for name in each)
    return [name for name in names if len({json.dumps(each.get(name), default=str) for each in fields}) > 1]


def _named(fields: dict[str, Any], names: Iterable[str]) -> list[str]:
    return [f"{name} {short(fields[name])}" for name in names if fields.get(name) is not None]
