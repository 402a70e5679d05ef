"""MRS layers against the published formulation, PyG and the matrix product alone; ratios from one process.

python benchmarks/bench_layers.py                                    # this machine's CPU, two threads
python benchmarks/bench_layers.py --device cuda --out results.json   # a GPU

Prints a table and writes the JSON with hardware, versions and commit. Every contender that computes the same function
is compared with the reference in float64, output and gradients, before anything is timed.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import torch
from layer_contenders import make_contenders
from layer_graphs import CPU_SIZES, GPU_SIZES, GROWTH, Size, make_adj
from measure import about, peak_bytes, row, save, seconds, show


def measure_layer(size: Size, device: torch.device, repeats: int) -> list[dict[str, Any]]:
    """All contenders on one graph."""
    runs = make_contenders(make_adj(size, device), size.channels)
    times = seconds(runs, repeats, device)
    base = statistics.median(times["graphprism"])
    return [row(size.name, name, times[name], peak_bytes(runs[name], device), base) for name in runs]


def measure_growth(device: torch.device, repeats: int) -> list[dict[str, Any]]:
    """Ours alone on ten and a hundred times as many edges."""
    rows = []
    for size in GROWTH:
        runs = {"graphprism": make_contenders(make_adj(size, device), size.channels)["graphprism"]}
        times = seconds(runs, repeats, device)["graphprism"]
        found = row(size.name, "graphprism", times, peak_bytes(runs["graphprism"], device), statistics.median(times))
        rows.append({**found, "ns_per_edge": round(1e6 * found["ms"] / size.num_edges, 2)})
        print(
            f"{size.name}: {found['ms']:.2f} ms, {rows[-1]['ns_per_edge']} ns an edge, {found['peak_mb']} MB",
            flush=True,
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", choices=["layers", "growth"])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    rows: list[dict[str, Any]] = []
    if options.only in (None, "layers"):
        for size in CPU_SIZES if device.type == "cpu" else GPU_SIZES:
            rows += measure_layer(size, device, options.repeats)
            show([each for each in rows if each["input"] == size.name])
    if options.only in (None, "growth"):
        rows += measure_growth(device, 3)
    if options.out is not None:
        save(options.out, {"about": about(device), "rows": rows})


if __name__ == "__main__":
    main()
