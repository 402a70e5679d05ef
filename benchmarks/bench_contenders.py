"""All that is compared with the published formulation and with PyG, in one command: a step, Snap-Patents, layers.

    PYTHONPATH=src python benchmarks/bench_contenders.py --device cuda --data FOLDER --out benchmarks/results/DATE-h200

Writes OUT-step.json, OUT-snap.json (on a CPU a twentieth of its size) and OUT-layers.json, each when it is measured.
"""

from __future__ import annotations

import argparse
import time

import bench_layers
import bench_snap
import bench_step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--data", help="folder with zinc12k.npz")
    parser.add_argument("--threads", default="2", help="of the CPU; one where other work runs on it")
    parser.add_argument("--out", required=True, help="beginning of the names of the files")
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    common = ["--device", options.device, "--threads", options.threads]
    data = ["--data", options.data] if options.data else []
    # runs in lockstep are meant for a GPU
    step = ["--runs", "1,27", "--repeats", "15"] if on_gpu else ["--runs", "", "--repeats", "40"]
    parts = {
        "step": (bench_step.main, [*data, *step]),
        "snap": (bench_snap.main, [] if on_gpu else ["--scale", "0.05", "--epochs", "3"]),
        "layers": (bench_layers.main, ["--only", "layers", "--repeats", "5"]),
    }
    for name, (run, arguments) in parts.items():
        begin = time.perf_counter()
        run([*common, *arguments, "--out", f"{options.out}-{name}.json"])
        print(f"{name}: {time.perf_counter() - begin:.0f} s\n", flush=True)


if __name__ == "__main__":
    main()
