"""Accuracy of `graphprism.training.estimate`: eight runs, each estimated and trained in a separate process.

    python benchmarks/bench_estimate.py [--cpu-time] [FOLDER OF DATA SETS]

Prints a line of JSON for each run: estimated and measured seconds and peak memory, and their ratios. With `--cpu-time`
seconds are CPU time, for a shared machine.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

NODES = {"batch_size": None, "warmup": 0, "optimizer": "adam", "schedule": "constant", "clip": 0.0, "self_loops": True}
RUNS = {
    "cora gcn": {"dataset": "cora", "model": "gcn", "layers": 2, "width": 64, "epochs": 100, "dropout": 0.5, **NODES},
    "cora deep": {"dataset": "cora", "model": "mrs-gcn", "layers": 8, "width": 256, "epochs": 20, **NODES},
    "chameleon": {"dataset": "chameleon", "model": "mrs-dir-gcn", "layers": 5, "width": 128, "epochs": 30, **NODES},
    "pubmed": {"dataset": "pubmed", "model": "mrs-sage", "layers": 3, "width": 128, "epochs": 12, **NODES},
    "zinc12k gcn": {"dataset": "zinc12k", "model": "gcn", "layers": 4, "width": 64, "batch_size": 128, "epochs": 3},
    "zinc12k mrs": {"dataset": "zinc12k", "model": "mrs-gcn", "layers": 8, "width": 40, "batch_size": 128, "epochs": 2},
    "molhiv": {"dataset": "molhiv", "model": "mrs-gcn", "layers": 3, "width": 32, "batch_size": 512, "epochs": 3},
    "zinc12k gated": {
        "dataset": "zinc12k",
        "model": "mrs-gated-gcn",
        "layers": 3,
        "width": 32,
        "batch_size": 256,
        "epochs": 2,
    },
}


def one(what: str, fields: dict[str, object], folder: str) -> dict[str, float]:
    """Estimates or trains one run in this process."""
    from graphprism.datasets import load
    from graphprism.training import Run, estimate, train

    run, dataset = Run(**fields), load(str(fields["dataset"]), folder)
    if what == "estimate":
        found = estimate(run, dataset, accelerator="cpu")
        return {"seconds": found.seconds, "bytes": found.peak_bytes}
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        train(run, dataset, folder=out, accelerator="cpu")
    seconds = time.perf_counter() - begin
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    return {"seconds": seconds, "bytes": peak}


def main() -> None:
    arguments = [each for each in sys.argv[1:] if each != "--cpu-time"]
    if "--cpu-time" in sys.argv:
        time.perf_counter = time.process_time  # one thread: the time that the run would take alone
    if len(arguments) == 3:
        print(json.dumps(one(arguments[0], RUNS[arguments[1]], arguments[2])))
        return
    folder = arguments[0] if arguments else os.environ.get("GRAPHPRISM_DATA", "")
    flag = ["--cpu-time"] if "--cpu-time" in sys.argv else []
    for name in RUNS:
        found = {}
        for what in ("estimate", "train"):
            command = [sys.executable, __file__, *flag, what, name, folder]
            found[what] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        ratios = {key: found["estimate"][key] / found["train"][key] for key in ("seconds", "bytes")}
        print(json.dumps({"run": name, **found, "ratio": ratios}), flush=True)


if __name__ == "__main__":
    main()
