"""A table of the paper, from its specification to numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from graphprism.datasets import PackedDataset
from graphprism.experiments.any_run import AnyRun
from graphprism.experiments.engine_for import trainer_of_many
from graphprism.experiments.estimate import Estimate, estimate
from graphprism.experiments.ledger import Ledger
from graphprism.experiments.load_datasets import load_datasets
from graphprism.experiments.make_table import make_table
from graphprism.experiments.plan import PlannedCell, plan, runs_to_do
from graphprism.experiments.run_missing import Listener, run_missing
from graphprism.experiments.settings import Settings
from graphprism.experiments.table_spec import TableSpec
from graphprism.experiments.write_table import write_table
from graphprism.results import RunResult, TableResult


@dataclass(frozen=True)
class Reproduction:
    """A table with all that is needed to run it: made once, then asked for an estimate or run.

    Attributes:
        spec: The table.
        settings: What was asked for.
        out: Folder of the ledger, of checkpoints and of tables.
        cells: The cells with their runs.
        runs: The runs of the wanted cells whose data sets are there.
        datasets: By name.
        missing: Why a data set is not there, by name.
    """

    spec: TableSpec
    settings: Settings
    out: Path
    cells: tuple[PlannedCell, ...]
    runs: tuple[AnyRun, ...]
    datasets: dict[str, PackedDataset]
    missing: dict[str, str]

    @classmethod
    def of(
        cls,
        spec: TableSpec,
        settings: Settings,
        data: Path | None = None,
        out: Path = Path("outputs"),
        fetch: bool = True,
    ) -> Reproduction:
        """Plans the runs and loads their data sets; wrong settings and missing data show here, before anything runs.

        Args:
            spec: The table.
            settings: What is asked for.
            data: Folder of data sets.
            out: Folder of the ledger, of checkpoints and of tables.
            fetch: Whether a data set that is not there may be downloaded; not needed for an estimate.
        """
        cells = plan(spec, settings)
        runs = runs_to_do(cells)
        trainer_of_many(spec, runs, settings.engine)
        datasets, missing = load_datasets((run.dataset for run in runs), data, fetch)
        there = tuple(run for run in runs if run.dataset not in missing)
        return cls(spec, settings, out, tuple(cells), there, datasets, missing)

    @property
    def ledger(self) -> Ledger:
        """All results in this folder."""
        return Ledger(self.out / "ledger.jsonl")

    def estimate(self) -> Estimate:
        """What is left to do."""
        engine = "eager" if trainer_of_many(self.spec, self.runs, self.settings.engine) is None else "lockstep"
        return estimate(self.runs, self.datasets, self.ledger.read(), engine)

    def run(self, listener: Listener | None = None) -> TableResult:
        """Trains what the ledger lacks and writes the table to ``tables/NAME.json``; may be killed and called again."""
        run_missing(
            self.spec, self.runs, self.datasets, self.ledger, self.out, engine=self.settings.engine, listener=listener
        )
        table = self.table()
        write_table(table, self.out)
        return table

    def table(self) -> TableResult:
        """The table with what the ledger has."""
        return make_table(self.spec, self.settings, self.cells, self.results(), self.missing)

    def results(self) -> dict[str, RunResult]:
        """The latest result of every run of the ledger; a finished one before one that diverged."""
        lines = self.ledger.read()
        lines.sort(key=lambda result: result.status == "finished")
        return {result.key: result for result in lines}
