"""What a user asks of a table."""

from __future__ import annotations

from dataclasses import dataclass

from graphprism.experiments.table_spec import GRIDS, TableSpec

ENGINES = ("auto", "eager", "lockstep")


@dataclass(frozen=True)
class Settings:
    """Which cells of a table to run, and how.

    Attributes:
        rows: Names of the rows to run; all where it is empty. The others show what the ledger already has.
        columns: The same for columns.
        seeds: Runs of each configuration.
        grid: ``"best"`` takes the published hyper-parameters, ``"full"`` all that the paper tried.
        epochs: In place of the published ones; the result is then not that of the published protocol.
        engine: ``"eager"``, ``"lockstep"`` or ``"auto"``.
    """

    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    seeds: int = 3
    grid: str = "best"
    epochs: int | None = None
    engine: str = "auto"

    def __post_init__(self) -> None:
        for name, allowed in (("grid", GRIDS), ("engine", ENGINES)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"`{name}` must be one of {list(allowed)}, got {getattr(self, name)!r}")
        for name in ("seeds", "epochs"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"`{name}` must be at least 1, got {value}")

    def wants(self, row: str, column: str) -> bool:
        """Whether a cell is to be run."""
        return (not self.rows or row in self.rows) and (not self.columns or column in self.columns)

    def check(self, spec: TableSpec) -> None:
        """Raises `ValueError` where a row or a column is not one of the table."""
        for name, asked, there in (("rows", self.rows, spec.rows), ("columns", self.columns, spec.columns)):
            unknown = [each for each in asked if each not in there]
            if unknown:
                raise ValueError(f"`{name}` must be among {', '.join(there)}, got {', '.join(unknown)}")
