"""Learned relations beside fixed ones on Cora at equal parameters: test accuracy, its deviation over seeds, cost.

python benchmarks/bench_learned.py [--data FOLDER] [--seeds 3] [--accelerator cuda]
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace

from graphprism.datasets import load
from graphprism.protocols import NODE_PROTOCOL
from graphprism.training import Run, train_lockstep

# The recipe of citation graphs, with the width that the budget allows.
RUN = Run("cora", "gcn", **{**NODE_PROTOCOL, "width": None, "budget": 100_000, "epochs": 200, "patience": 100})
ROWS = {
    "gcn": {},
    "degree": {"model": "mrs-gcn"},
    "learned from degree": {"model": "mrs-gcn", "learned_split": True},
    "lmgc": {"model": "lmgc"},
    "similarity": {"model": "mrs-gcn", "split": "similarity"},
    "community": {"model": "mrs-gcn", "split": "community"},
    "curvature": {"model": "mrs-gcn", "split": "curvature"},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--accelerator", default="cpu")
    options = parser.parse_args()
    dataset = load("cora", options.data)
    for name, change in ROWS.items():
        runs = [replace(RUN, seed=seed, **change) for seed in range(options.seeds)]
        results = train_lockstep(runs, dataset, accelerator=options.accelerator, at_once=1)
        test = [each.history["test"][each.best_epoch - 1] for each in results]
        cost = statistics.median(each.step_ms for each in results)
        score = f"{statistics.fmean(test):.2f} ± {statistics.stdev(test):.2f} %"
        size = f"width {results[0].width}, {results[0].parameters:,} parameters"
        print(f"{name}: {score}, {size}, {cost:.1f} ms a step", flush=True)


if __name__ == "__main__":
    main()
