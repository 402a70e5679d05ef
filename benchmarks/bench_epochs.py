"""Seconds per epoch of nine runs in lockstep, for the ten models of the ZINC table, and the projected time of all runs.

    PYTHONPATH=src python benchmarks/bench_epochs.py --data FOLDER --out benchmarks/results/DATE-HARDWARE.json

Three seeds by three learning rates, eight layers, 500,000 parameters, ZINC12k or molecules like it; training and both
evaluations. The table has 22 times the training graphs, 500 epochs and six depths, which have the same number of
parameters and are counted as eight layers.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import measure
import torch

from graphprism.datasets import load, molecules
from graphprism.training import Run, train_lockstep

MODELS = ("gcn", "mrs-gcn", "sage", "mrs-sage", "gat", "mrs-gat", "gin", "mrs-gin", "gated-gcn", "mrs-gated-gcn-9")
RATES, SEEDS, LAYERS = (1e-3, 3e-4, 1e-4), range(3), 8
# The training graphs of ZINC for one of ZINC12k, epochs and depths of the table.
GRAPHS, EPOCHS, DEPTHS = 220_011 / 10_000, 500, 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--epochs", type=int, default=4, help="the fastest counts")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    dataset = load("zinc12k", args.data) if args.data else molecules()
    rows = []
    for model in args.models.split(","):
        run = Run("zinc12k", model, layers=LAYERS, epochs=args.epochs, start="independent")
        runs = [Run(**{**run.to_dict(), "lr": lr, "seed": seed}) for lr in RATES for seed in SEEDS]
        results = train_lockstep(runs, dataset)
        seconds = min(sum(result.history["seconds"][epoch] for result in results) for epoch in range(args.epochs))
        row = {
            "model": model,
            "seconds_an_epoch": round(seconds, 3),
            "step_ms_a_run": round(results[0].step_ms, 4),
            "projected_hours": round(seconds * GRAPHS * EPOCHS * DEPTHS / 3600, 2),
        }
        print(row, flush=True)
        rows.append(row)
        total = round(sum(each["projected_hours"] for each in rows), 1)
        if args.out:
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            about = {"about": measure.about(device), "dataset": dataset.name, "runs": len(runs)}
            measure.save(args.out, {**about, "rows": rows, "projected_hours": total})
    print(f"all {len(rows)} models, projected: {total} hours (the paper: 4,500 hours of an H100 for its table)")


if __name__ == "__main__":
    main()
