"""The runs of a table, their data sets and an estimate of their time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

from graphprism.datasets import PackedDataset, data_folder, load
from graphprism.experiments.spec import CellSpec, Settings, TableSpec
from graphprism.results import RunResult
from graphprism.training import Run
from graphprism.training.provenance import hardware
from graphprism.training.run import ORIGIN


@dataclass(frozen=True)
class PlannedCell:
    """A cell with its runs: one list for each configuration, and in it one run for each seed.

    Attributes:
        spec: The cell.
        configurations: Its runs; empty for a number that is only quoted.
        wanted: Whether to run them; otherwise only results in the ledger are shown.
    """

    spec: CellSpec
    configurations: tuple[tuple[Run, ...], ...]
    wanted: bool


def plan(spec: TableSpec, settings: Settings) -> list[PlannedCell]:
    """All cells of a table with their runs."""
    settings = settings.spelt_as_in(spec)
    return [_planned(spec, cell, settings) for cell in spec.cells]


def runs_to_do(cells: list[PlannedCell]) -> list[Run]:
    """The distinct runs of all wanted cells, the first configuration of every cell before all others."""
    wanted = [cell.configurations for cell in cells if cell.wanted]
    depth = max((len(configurations) for configurations in wanted), default=0)
    runs = [
        run
        for number in range(depth)
        for configurations in wanted
        for run in (configurations[number] if number < len(configurations) else ())
    ]
    return list({run.key: run for run in runs}.values())


def _planned(spec: TableSpec, cell: CellSpec, settings: Settings) -> PlannedCell:
    configurations = cell.configurations(settings.grid)
    if settings.epochs is not None:
        configurations = [replace(run, epochs=settings.epochs) for run in configurations]
    runs = tuple(tuple(spec.repeated(run, seed) for seed in range(settings.seeds)) for run in configurations)
    return PlannedCell(cell, runs, settings.wants(cell.row, cell.column))


# Fields that determine the time of an epoch.
_ALIKE = (
    *("dataset", "model", "layers", "width", "budget", "residual", "jk", "pe", "batch_size", "precision"),
    *("norm", "ffn", "pe_encoder", "walk_steps", "edge_walks", "split_layers"),
)


@dataclass(frozen=True)
class Estimate:
    """Remaining work of a table.

    Attributes:
        runs: Number of runs of the table.
        finished: Number of runs in the ledger.
        steps: Training steps of the others, without those on missing data sets.
        seconds: Their time, from comparable runs in the ledger.
        unknown: Number of the others without a comparable run in the ledger.
    """

    runs: int
    finished: int
    steps: int
    seconds: float
    unknown: int


def estimate(
    runs: Sequence[Run], datasets: Mapping[str, PackedDataset], results: Iterable[RunResult], engine: str
) -> Estimate:
    """Counts runs and steps, and takes the time of an epoch from comparable runs of that engine on this machine.

    Results without ``step_ms`` are ignored: their device was shared, so that their time is not representative.
    """
    known = list(results)
    keys = {result.key for result in known}
    left = [run for run in runs if run.key not in keys]
    pace = _seconds_per_epoch(known, engine)
    times = [pace[kind] * run.epochs for run in left if (kind := _kind(run.to_dict())) in pace]
    steps = sum(_steps(run, datasets) for run in left)
    return Estimate(len(runs), len(runs) - len(left), steps, math.fsum(times), len(left) - len(times))


def _seconds_per_epoch(results: list[RunResult], engine: str) -> dict[object, float]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    here = hardware(device, 1)["name"]
    found: dict[object, list[float]] = {}
    for result in results:
        epochs = len(result.history.get("train_loss", []))
        alone = result.step_ms is not None
        if epochs and alone and result.engine == engine and result.hardware.get("name") == here:
            found.setdefault(_kind(result.run), []).append(result.seconds / epochs)
    return {kind: median(times) for kind, times in found.items()}


def _kind(run: Mapping[str, Any]) -> object:
    return tuple(run.get(name, ORIGIN[name]) for name in _ALIKE)


def _steps(run: Run, datasets: Mapping[str, PackedDataset]) -> int:
    batch, dataset = getattr(run, "batch_size", None), datasets.get(run.dataset)
    if dataset is None:
        return 0
    if batch is None or dataset.split is None:
        return run.epochs  # the whole graph at once
    batches: int = math.ceil(dataset.subset("train").numel() / batch)
    return run.epochs * batches


def load_datasets(
    names: Iterable[str], data: Path | None, fetch: bool = True
) -> tuple[dict[str, PackedDataset], dict[str, str]]:
    """Loads data sets by name, each once; returns the present ones, and why others are missing.

    Args:
        names: Arguments of `graphprism.datasets.load`.
        data: Folder of data sets.
        fetch: Whether a missing set may be downloaded; if not, it is in neither result.

    Raises:
        OSError: All are missing.
        DatasetFileError: A file is damaged.
    """
    found: dict[str, PackedDataset] = {}
    missing: dict[str, OSError] = {}
    for name in dict.fromkeys(names):
        if not fetch and name != "molecules" and not (data_folder(data) / f"{name}.npz").is_file():
            continue
        try:
            found[name] = load(name, data)
        except OSError as error:
            missing[name] = error
    if missing and not found:
        raise next(iter(missing.values()))
    return found, {name: str(error) for name, error in missing.items()}
