"""Every stored result is found by the tables that it was computed for, and gives the same mean."""

import shutil
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from graphprism.experiments import (
    DEPTH,
    DIRECTED,
    HOMOPHILIC,
    ORDERINGS_64,
    ORDERINGS_TABLE,
    PEPTIDES,
    TRAINING_LOSS,
    ZINC,
    Ledger,
    Reproduction,
    Settings,
)
from tests.pins.pinned import ROOT, as_json, differences, pinned

RESULTS = ROOT / "benchmarks" / "results"
TABLES = (ORDERINGS_TABLE, ORDERINGS_64, ZINC, DEPTH, PEPTIDES, TRAINING_LOSS, DIRECTED, HOMOPHILIC)
# A ledger of fewer epochs than the published ones is asked for by --epochs.
EPOCHS = {"2026-11-15-eager-h200.jsonl": 20}


def measure(folder=RESULTS):
    return {path.name: measure_ledger(path) for path in sorted(folder.glob("*.jsonl"))}


def measure_ledger(path):
    """What the tables find in a ledger.

    ``results`` and ``others`` count its lines, ``unused`` the results that no table asks for. A cell has the number of
    runs that it is the mean of, and that mean, with the published hyper-parameters (``best``) and with the best of the
    grid (``full``); ``runs`` counts all stored runs of its grid. Rows of look-ups without parameters are among them.
    """
    with warnings.catch_warnings():  # one for each line that is no result
        warnings.simplefilter("ignore")
        results = Ledger(path).read()
    lines = sum(bool(line.strip()) for line in path.read_bytes().splitlines())
    counts = {"results": len(results), "others": lines - len(results)}
    if not results:
        return counts
    datasets, stored = {result.run["dataset"] for result in results}, {result.key for result in results}
    tables, asked_for = {}, set()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(path, Path(folder) / "ledger.jsonl")
        for table in TABLES:
            # cells of other data sets have nothing here, and the keys of their grids take seconds
            shared = tuple(cell for cell in table.cells if cell.best and cell.best.dataset in datasets)
            if not shared:
                continue
            spec, cells = replace(table, cells=shared), {}
            for grid in ("best", "full"):
                settings = Settings(seeds=spec.seeds, grid=grid, epochs=EPOCHS.get(path.name))
                # the folder holds no data: a table needs only the results
                found = Reproduction.of(spec, settings, data=Path(folder), out=Path(folder), fetch=False)
                for cell in found.table().cells:
                    if cell.ours is not None:
                        place = cells.setdefault(f"{cell.row} | {cell.column}", {})
                        place[grid] = [cell.ours.count, float(f"{cell.ours.mean:.7g}")]
            for cell in found.cells:  # of the full grid
                keys = {run.key for runs in cell.configurations for run in runs} & stored
                asked_for |= keys
                if keys:
                    cells.setdefault(f"{cell.spec.row} | {cell.spec.column}", {})["runs"] = len(keys)
            if cells:
                tables[spec.name] = cells
    return {**counts, "unused": sum(result.key not in asked_for for result in results), "tables": tables}


@pytest.mark.skipif(not RESULTS.is_dir(), reason="benchmarks/results is not part of this distribution")
# a ledger that is newer than the pins may be there too; the grids of the node tables have keys for seconds
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[pytest.mark.slow] * any(word in name for word in ("default-start", "nodes-h200", "baselines"))
        )
        for name in pinned("ledgers")
    ],
)
def test_every_table_finds_its_stored_runs(name):
    # 7 digits: the mean itself may be summed in another order
    assert differences(as_json(measure_ledger(RESULTS / name)), pinned("ledgers")[name], rel=2e-7) == []
