"""Memory of training on ZINC12k."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from graphprism._checks import check_positive
from graphprism.experiments.experiment import Measured, Option
from graphprism.experiments.find_graph import zinc_or_molecules
from graphprism.known import named_folder
from graphprism.results import Cell, CellStatus, Score, TableResult
from graphprism.training import Run, train


@dataclass(frozen=True)
class MemoryRow:
    """One row: the model and its published memory in GB."""

    row: str
    model: str
    gpu: float
    main: float


MEMORY = (MemoryRow("GCN", "gcn", 1.918, 1.218), MemoryRow("MRS-GCN", "mrs-gcn", 1.914, 1.265))
MEMORY_SOURCE = "tab:memory (appendix), mean of five runs on an H100"


# Columns and their readings; what the published GPU memory counts is not said.
_COLUMNS = {"GPU memory, tensors (GB)": "gpu", "GPU memory, process (GB)": "gpu_process", "Main memory (GB)": "main"}
# Path of the package, installed or not, for the subprocess.
_SOURCE = Path(__file__).resolve().parents[3]
_IN_A_PROCESS = f"from {__name__} import print_training_memory; print_training_memory()"
_NOTE = (
    "GPU memory of tensors is the peak that PyTorch's allocator gives out; that of the process adds what the allocator "
    "holds in reserve and the context of CUDA, and is of a device that no other process uses. The paper does not say "
    "which it means; its number seems to be the second. Main "
    "memory is the peak of the process with PyTorch and the data set."
)


def memory_steps(seeds: int, data: Path | None = None) -> list[str]:
    """Titles of the runs; raises for invalid options."""
    check_positive("seeds", seeds)
    return [f"{row.row}, seed {seed}" for row in MEMORY for seed in range(seeds)]


def memory_table(
    data: Path | None = None, seeds: int = 3, on_step: Callable[[str], None] = lambda title: None
) -> TableResult:
    """Peak memory of a training epoch on ZINC12k, each run in a separate process.

    Args:
        data: Folder of data sets; generated molecules replace ZINC12k if it is missing.
        seeds: Number of runs per model.
        on_step: Called with the title of each finished run.
    """
    memory_steps(seeds=seeds)
    cells: list[Cell] = []
    for row in MEMORY:
        found = []
        for seed in range(seeds):
            found.append(measure(row.model, seed, data))
            on_step(f"{row.row}, seed {seed}")
        cells += [_cell(row, column, found) for column in _COLUMNS]
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "the CPU"
    return TableResult(
        name="memory",
        title="Memory of training eight layers with 500,000 parameters, batches of 32",
        source=MEMORY_SOURCE,
        rows=tuple(row.row for row in MEMORY),
        columns=tuple(_COLUMNS),
        cells=tuple(cells),
        unit="GB",
        notes=(f"One epoch on {where}, {zinc_or_molecules(data).name}.", _NOTE),
    )


def measure(model: str, seed: int, data: Path | None) -> dict[str, float | None]:
    """Peak memory in GB of a process that trains for one epoch.

    Raises:
        ChildProcessError: The process failed; the message has its last line.
    """
    folder = named_folder(data)
    command = [sys.executable, "-c", _IN_A_PROCESS, model, str(seed), *([] if folder is None else [str(folder)])]
    paths = [str(_SOURCE), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        problem = f"the process that measures the memory of {model} ended with code {done.returncode}"
        raise ChildProcessError(f"{problem}: {last}")
    peaks: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return peaks


def print_training_memory() -> None:
    """Main function of the measuring process: ``MODEL SEED [FOLDER]`` in ``sys.argv``, one line of JSON on stdout."""
    folder = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    print(json.dumps(training_memory(sys.argv[1], int(sys.argv[2]), folder)))


def training_memory(model: str, seed: int, data: Path | None) -> dict[str, float | None]:
    """Peak memory in GB of this process while it trains eight layers with 500,000 parameters for one epoch."""
    dataset = zinc_or_molecules(data)
    train(Run(dataset.name, model, epochs=1, seed=seed, start="independent"), dataset, engine="eager")
    main = peak_bytes()
    gpu, gpu_process = peak_gpu_bytes() if torch.cuda.is_available() else (None, None)
    found = {"gpu": gpu, "gpu_process": gpu_process, "main": main}
    return {name: None if value is None else value / 1e9 for name, value in found.items()}


def peak_gpu_bytes() -> tuple[int, int]:
    """Peak GPU memory of the tensors of this process, and of all that it takes if no other uses the device."""
    free, total = torch.cuda.mem_get_info()
    returned = torch.cuda.max_memory_reserved() - torch.cuda.memory_reserved()
    return torch.cuda.max_memory_allocated(), total - free + returned


def peak_bytes() -> int | None:
    """Peak main memory of this process; None if the system does not report it."""
    # On Linux not getrusage, which includes the peak of the parent process.
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text("utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _cell(row: MemoryRow, column: str, found: list[dict[str, float | None]]) -> Cell:
    name = _COLUMNS[column]
    values = [peaks[name] for peaks in found]
    ours = Score.of([value for value in values if value is not None])
    published = Score(row.main if name == "main" else row.gpu, None, 5)
    if ours is None:
        note = "no GPU here" if name != "main" else "not measured on this system"
        return Cell(row.row, column, None, published, note=note, status=CellStatus.QUOTED)
    return Cell(row.row, column, ours, published)


MEMORY_TABLE = Measured(
    name="memory",
    help="Measure the memory of training, each run in a process of its own.",
    measure=memory_table,
    steps=memory_steps,
    options=(Option("seeds", int, 3, "Runs of each model."),),
)
