"""From a table to the runs that it needs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphprism.experiments.any_run import AnyRun
from graphprism.experiments.settings import Settings
from graphprism.experiments.table_spec import CellSpec, TableSpec


@dataclass(frozen=True)
class PlannedCell:
    """A cell with its runs: one list for each configuration, and in it one run for each seed.

    Attributes:
        spec: The cell.
        configurations: Its runs; empty for a number that is only quoted.
        wanted: Whether they are to be run; where not, only what the ledger has is shown.
    """

    spec: CellSpec
    configurations: tuple[tuple[AnyRun, ...], ...]
    wanted: bool


def plan(spec: TableSpec, settings: Settings) -> list[PlannedCell]:
    """All cells of a table with their runs."""
    settings.check(spec)
    return [_planned(spec, cell, settings) for cell in spec.cells]


def runs_to_do(cells: list[PlannedCell]) -> list[AnyRun]:
    """The runs of all wanted cells, each once, the first configuration of every cell before all others."""
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
    runs = tuple(tuple(spec.repeat(run, seed) for seed in range(settings.seeds)) for run in configurations)
    return PlannedCell(cell, runs, settings.wants(cell.row, cell.column))
