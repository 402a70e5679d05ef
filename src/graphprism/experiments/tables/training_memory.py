"""Memory of one epoch of training; a process of its own, so that the peak is that of the training alone.

``python -m graphprism.experiments.training_memory MODEL SEED [FOLDER]`` prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from graphprism.experiments.find_graph import zinc_or_molecules


def training_memory(model: str, seed: int, data: Path | None) -> dict[str, float | None]:
    """Peaks in GB of this process while it trains eight layers with 500,000 parameters for one epoch."""
    from graphprism.training import Run, train

    dataset = zinc_or_molecules(data)
    train(Run(dataset.name, model, epochs=1, seed=seed), dataset)
    gpu = torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else None
    return {"gpu": gpu, "main": peak_bytes() / 1e9}


def peak_bytes() -> int:
    """Most main memory that this process has held."""
    # getrusage would start from the peak of the process that started this one, where Linux has its own count.
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text("utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    folder = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    print(json.dumps(training_memory(sys.argv[1], int(sys.argv[2]), folder)))
