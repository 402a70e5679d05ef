"""Workers side by side: ``python run_tiny.py DATA OUT SEEDS EPOCHS WORKERS`` runs the small table in each.

Every epoch of training is a line ``PID KEY EPOCH``. Who reads them kills a worker in the middle of a run and writes
OUT/killed; until then workers wait after the second epoch.
"""

import os
import sys
import time
from importlib import import_module
from pathlib import Path

from graphprism.experiments import Reproduction, Settings
from graphprism.experiments.runner import Listener
from graphprism.training.session import EpochReport
from tests.experiments.tiny_table import TINY


def work(data: str, out: str, seeds: int, epochs: int) -> None:
    settings = Settings(seeds=seeds, epochs=epochs, engine="eager")

    def on_epoch(report: EpochReport) -> None:
        print(os.getpid(), report.run.key, report.epoch, flush=True)
        while report.epoch == 2 and not (Path(out) / "killed").exists():
            time.sleep(0.01)

    listener = Listener(on_epoch=on_epoch)
    Reproduction.of(TINY, settings, Path(data), Path(out)).run(listener)


if __name__ == "__main__":
    for slow in ("lightning.fabric", "torchmetrics.functional"):  # before the fork, so that each worker need not
        import_module(slow)
    data, out, (seeds, epochs, workers) = sys.argv[1], sys.argv[2], map(int, sys.argv[3:])
    pids = []
    for _ in range(workers):  # forked: each would else load torch again
        if not (pid := os.fork()):
            work(data, out, seeds, epochs)
            os._exit(0)
        pids.append(pid)
    sys.exit(sum(os.waitpid(pid, 0)[1] != 0 for pid in pids))
