"""Milliseconds per step and run of strong bases, GCN+, GIN+ and GatedGCN+ plain and split, several runs in lockstep.

    PYTHONPATH=src python benchmarks/bench_strong.py --data FOLDER --out benchmarks/results/DATE-HARDWARE.json

An epoch of captured steps of ZINC12k with the settings of `graphprism reproduce strong`, in full float32 and in TF32,
which training allows. The fastest epoch counts. Before that, two runs after three steps are compared with the eager
engine. The bar on an H200 is 0.35 ms: a cell of four runs and 2,000 epochs in 15 minutes.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import measure
import torch
from bench_step import check_lockstep
from bench_training import first_training_graphs

from graphprism.datasets import load
from graphprism.experiments.tables.strong import STRONG
from graphprism.training.lockstep.data import TableDataset
from graphprism.training.lockstep.engine import LockstepEngine

COLUMN, BAR = "ZINC12k (MAE)", 0.35
PRECISIONS = {"float32": "highest", "TF32": "high"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with zinc12k.npz")
    parser.add_argument("--rows", default="GCN+,MRS-GCN+ (degree),GIN+,GatedGCN+")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--graphs", type=int, help="so many training graphs, for a look; all without it")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = load("zinc12k", args.data)
    dataset = dataset if args.graphs is None else first_training_graphs(dataset, args.graphs)
    cells = {cell.row: cell.best for cell in STRONG.cells if cell.column == COLUMN}
    rows = []
    for name in args.rows.split(","):
        runs = [replace(cells[name], seed=seed) for seed in range(args.runs)]
        # without dropout, which the engines draw differently
        check_lockstep([replace(run, dropout=0.0, edge_dropout=False) for run in runs[:2]], dataset, device)
        data = TableDataset(runs[0], dataset, device, torch.float32)
        for precision, setting in PRECISIONS.items():
            torch.set_float32_matmul_precision(setting)
            engine = LockstepEngine(runs, dataset, data, device)
            row = {"row": name, "width": engine.width(0), "parameters": engine.parameters(0), "runs": args.runs}
            row |= {"precision": precision, "ms": round(epoch_ms(engine, args.epochs, device) / args.runs, 4)}
            rows.append(row)
            bar = f", {'kept' if row['ms'] <= BAR else 'MISSED'} (at most {BAR})" if device.type == "cuda" else ""
            print(f"{name}, {precision}: {row['ms']:.3f} ms a step and run{bar}", flush=True)
    if args.out:
        measure.save(args.out, {"about": measure.about(device), "rows": rows})


def epoch_ms(engine: LockstepEngine, epochs: int, device: torch.device) -> float:
    """Milliseconds of a step of all runs, the mean of the fastest epoch; the first epoch captures."""
    engine.begin(0)
    found: list[float] = []
    for number in range(epochs + 1):
        steps = engine.lay_ready(engine.graphs(0))
        begin = measure.wall(device)
        for step in steps:
            step()
        found.append(1e3 * (measure.wall(device) - begin) / len(steps))
        if number == 0:
            found.clear()
    return min(found)


if __name__ == "__main__":
    main()
