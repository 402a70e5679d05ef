"""Runs all comparisons with the published formulation and with PyG: training step, Snap-Patents, layers.

    PYTHONPATH=src python benchmarks/bench_contenders.py --device cuda --data FOLDER --out benchmarks/results/DATE-h200

Writes OUT-step.json, OUT-snap.json (on a CPU a fiftieth of its size) and OUT-layers.json, each when it is measured.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

PARTS = {
    "cpu": {
        "step": ["--runs", "", "--repeats", "40"],  # runs in lockstep are meant for a GPU
        "snap": ["--scale", "0.02", "--epochs", "2"],
        "layers": ["--only", "layers", "--repeats", "5"],
    },
    "cuda": {
        "step": ["--models", "mrs-gcn", "--repeats", "15"],
        "snap": ["--epochs", "5"],
        "layers": ["--only", "layers", "--repeats", "5"],
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=sorted(PARTS))
    parser.add_argument("--data", help="folder with zinc12k.npz")
    parser.add_argument("--threads", default="2", help="of the CPU; one where other work runs on it")
    parser.add_argument("--out", required=True, help="beginning of the names of the files")
    options = parser.parse_args()
    failed = []
    # separate processes, which share neither matmul settings nor memory
    for name, arguments in PARTS[options.device].items():
        words = ["--device", options.device, "--threads", options.threads, "--out", f"{options.out}-{name}.json"]
        if name == "step" and options.data:
            words += ["--data", options.data]
        begin = time.perf_counter()
        script = Path(__file__).with_name(f"bench_{name}.py")
        if subprocess.run([sys.executable, str(script), *words, *arguments], check=False).returncode:
            failed.append(name)
        print(f"{name}: {time.perf_counter() - begin:.0f} s\n", flush=True)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
