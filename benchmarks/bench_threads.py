"""How a training step on molecules and a large layer scale with the threads of a CPU: ours and PyG's, wall time.

    PYTHONPATH=src python benchmarks/bench_threads.py --threads 1,4,16 --data FOLDER --out RESULTS.json

The step is the eager one of `bench_step.py` (8 layers, 500,000 parameters, 32 molecules), the layer MRS-GCN of
`bench_all_layers.py` (169k nodes, 1.17M edges, 64 channels, prepared). Both are compared with PyG's in float64 first.
Run it on an idle machine: unlike in the other scripts, a time is that of the wall for every number of threads.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measure
import torch
from bench_all_layers import SIZES, contenders
from bench_step import OURS, bars, check_networks, networks, steps
from bench_training import zinc
from layer_pairs import PAIRS, check_in_double, compare, split_graph

STEPS = (OURS, f"{OURS} GCN", "PyG GCNConv, norm prepared", "PyG GCNConv")
LAYERS = ("ours, prepared", "PyG, prepared", "product alone")
CPU = torch.device("cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="1,2", help="numbers of threads; speed-ups are over the first")
    parser.add_argument("--data", type=Path, help="folder with zinc12k.npz")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each number of threads and each of the two")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    counts = [int(count) for count in args.threads.split(",")]
    torch.set_num_threads(max(counts))  # of the checks
    found = {**step_runs(args.data), **layer_runs()}
    print(f"{len(os.sched_getaffinity(0))} cores for this process; milliseconds, and speed-up over {counts[0]} threads")
    rows: list[dict[str, Any]] = []
    for what, runs in found.items():
        for count in counts:
            torch.set_num_threads(count)
            times = measure.seconds(runs, 100, CPU, args.seconds, measure.wall)
            for name, sample in times.items():
                row = measure.row(what, name, sample, None, statistics.median(times[next(iter(runs))]))
                first = next((each for each in rows if (each["input"], each["contender"]) == (what, name)), row)
                row |= {"threads": count, "speed_up": round(first["ms"] / row["ms"], 2)}
                rows.append(row)
                words = f"{what}, {name}"
                print(f"{words:<62} {count:>3} threads {row['ms']:>9.2f} ms {row['speed_up']:>6.2f}x", flush=True)
            if args.out:
                measure.save(args.out, {"about": measure.about(CPU), "rows": rows})
    step = {row["contender"]: row["ms"] for row in rows if row["threads"] == 1 and row["input"].startswith("step")}
    for bar in bars(step, CPU) if step else ():
        print(bar, flush=True)


def step_runs(data: Path | None) -> dict[str, dict[str, Callable[[], object]]]:
    """A step of each eager network on the next batch."""
    dataset, name = zinc(data)
    check_networks(dataset, CPU)
    made = networks(dataset, CPU)
    return {f"step, {name}": dict(steps({name: made[name] for name in STEPS}, dataset, CPU))}


def layer_runs() -> dict[str, dict[str, Callable[[], object]]]:
    """The large layer, forward and backward."""
    size, channels = SIZES["large"]
    graph, pair = split_graph(size, CPU), PAIRS[0]
    answer = check_in_double(pair, graph, channels, CPU)
    runs = contenders(pair, graph, channels, CPU, "width")
    for name in LAYERS[:2]:
        compare(runs[name]()[: len(answer)], answer, 1e-4, 1e-2, f"{pair.name}: {name} in float32")
    return {"large layer": {name: runs[name] for name in LAYERS}}


if __name__ == "__main__":
    main()
