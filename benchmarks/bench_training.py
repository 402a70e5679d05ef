"""A training step of our engine against the same network in PyG, on ZINC: 8 layers, 500,000 parameters, 32 graphs.

python benchmarks/bench_training.py --data FOLDER                   # this machine's CPU, two threads
python benchmarks/bench_training.py --device cuda --out results.json
python benchmarks/bench_training.py --epochs 20 --ledger FILE.jsonl   # trains both models instead of timing them

Without a folder that holds zinc12k.npz (--data, or GRAPHPRISM_DATA) the graphs are generated molecules of ZINC's sizes.
Before any timing our networks and PyG's must agree in float64: outputs, and all weights after three steps.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from measure import about, clock, row, save, show
from torch_geometric.data import Batch
from training_contenders import copy_weights, pyg_trainers, weights_of

from graphprism.datasets import PackedDataset, load, molecules
from graphprism.experiments import Ledger
from graphprism.known import named_folder
from graphprism.training import EpochReport, Run, build_model, train
from graphprism.training.eager import EagerEngine
from graphprism.training.optim import epoch_order
from graphprism.training.processes import make_fabric

MODELS = ("gcn", "mrs-gcn")
# Largest share of a step that batching may take on a CPU.
DATA_SHARE = 0.10


def zinc(data: Path | None) -> tuple[PackedDataset, str]:
    """ZINC12k where it is, else molecules of its sizes; and which of the two."""
    folder = named_folder(data)
    if folder is not None and (folder / "zinc12k.npz").is_file():
        return load("zinc12k", folder), "zinc12k"
    return molecules(), "molecules"


def first_training_graphs(dataset: PackedDataset, count: int) -> PackedDataset:
    """The same with only so many graphs for training."""
    split = torch.full((len(dataset),), 2, dtype=torch.uint8)
    split[dataset.subset("train")[:count]] = 0
    return replace(dataset, split=split)


def make_engine(run: Run, dataset: PackedDataset, device: torch.device) -> EagerEngine:
    return EagerEngine(make_fabric(run, device.type, devices=1, nodes=1), run, dataset)


def check(model: str, dataset: PackedDataset, device: torch.device) -> None:
    """Raises unless engine and PyG agree in float64: outputs for a batch, and all weights after three steps on it."""
    run = Run(model=model, precision="float64", warmup=0, schedule="constant", start="independent")
    few = first_training_graphs(dataset, run.batch_size)
    for theirs in pyg_trainers(build_model(run, few), run, few, device, torch.float64).values():
        engine, network = make_engine(run, few, device), theirs.network
        copy_weights(engine.network, network)
        batch = Batch.from_data_list(list(theirs.loader.dataset)).to(device)
        torch.testing.assert_close(engine.outputs_of("train")[0], network(batch).detach().cpu(), rtol=1e-9, atol=1e-9)
        # three: the first step of AdamW is invariant to the gradient's norm, and would not show wrong clipping
        for epoch in range(3):  # of one batch each
            engine.train_epoch(epoch)
            theirs.step(batch)
        for ours, other in zip(weights_of(engine.network), weights_of(network), strict=True):
            # AdamW normalises gradients, which amplifies rounding where they are near 0
            torch.testing.assert_close(ours, other, rtol=1e-6, atol=1e-7)


def contenders(model: str, dataset: PackedDataset, device: torch.device) -> dict[str, Callable[[], object]]:
    """One epoch each: our engine with its batching, PyG with and without loading, and the loading of both alone."""
    run = Run(model=model, start="independent")
    engine, order = make_engine(run, dataset, device), dataset.subset("train")

    def our_batches() -> list[object]:
        return list(engine.data.batches(order[epoch_order(0, 1, order.numel())], run.batch_size))

    found = {"graphprism": lambda: engine.train_epoch(run.warmup), "graphprism, batching alone": our_batches}
    for name, pyg in pyg_trainers(engine.network, run, dataset, device).items():
        found |= {name: pyg.train_epoch, f"{name}, loading not counted": pyg.train_loaded}
        found[f"{name}, loading alone"] = pyg.load
    return found


def seconds_per_step(
    runs: dict[str, Callable[[], object]], steps: int, repeats: int, device: torch.device
) -> dict[str, list[float]]:
    """Seconds per step of every contender, in turns; the first round warms up."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(repeats + 1):
        for name, run in runs.items():
            _wait(device)
            begin = clock(device)
            run()
            _wait(device)
            if number:
                found[name].append((clock(device) - begin) / steps)
    return found


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def bars(times: dict[str, dict[str, list[float]]], device: torch.device) -> dict[str, Any]:
    """Ratios that the step is held to, and whether each is kept."""
    middle = {m: {name: statistics.median(each) for name, each in times[m].items()} for m in times}
    found: dict[str, Any] = {}
    most = 1.0 if device.type == "cpu" else 0.5
    for model, ms in middle.items():
        share = ms["graphprism, batching alone"] / ms["graphprism"]
        found[f"{model}: share of batching in our step"] = [round(share, 3), device.type != "cpu" or share < DATA_SHARE]
        for name in ("PyG", "PyG, norm prepared"):
            ratio = ms["graphprism"] / middle["gcn"][f"{name}, loading not counted"]
            words = f"{model}: our step over that of GCN, {name}, without loading, at most {most}"
            found[words] = [round(ratio, 3), ratio <= most]
    return found


def measure_steps(dataset: PackedDataset, device: torch.device, steps: int, repeats: int) -> dict[str, Any]:
    few = first_training_graphs(dataset, steps * Run.batch_size)
    made = {model: contenders(model, few, device) for model in MODELS}
    flat = {f"{model}: {name}": run for model, runs in made.items() for name, run in runs.items()}
    taken = seconds_per_step(flat, -(-few.subset("train").numel() // Run.batch_size), repeats, device)
    times = {model: {name: taken[f"{model}: {name}"] for name in made[model]} for model in MODELS}
    rows = []
    for model in MODELS:
        base = statistics.median(times[model]["graphprism"])
        rows += [row(model, name, each, None, base) for name, each in times[model].items()]
    return {"rows": rows, "bars": bars(times, device)}


def show_epoch(report: EpochReport) -> None:
    scores = f"loss {report.train_loss:.4f}, val {report.val:.4f}, test {report.test:.4f}"
    print(f"{report.run.model} {report.epoch}/{report.epochs}: {scores}, {report.seconds:.1f} s", flush=True)


def train_both(dataset: PackedDataset, name: str, device: torch.device, epochs: int, ledger: Path) -> None:
    for model in MODELS:
        run = Run(name, model, epochs=epochs, start="independent")
        result = train(run, dataset, accelerator=device.type, engine="eager", on_epoch=show_epoch)
        Ledger(ledger).append(result)
        print(f"{run.title}: test {result.at_best('test'):.4f}, {result.step_ms:.2f} ms a step, {result.seconds:.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--data", type=Path, help="folder with zinc12k.npz")
    parser.add_argument("--steps", type=int, default=100, help="steps of an epoch")
    parser.add_argument("--repeats", type=int, default=7, help="rounds over all contenders")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="file for the JSON")
    parser.add_argument("--epochs", type=int, help="train this many epochs instead of timing")
    parser.add_argument("--ledger", type=Path, default=Path("outputs/ledger.jsonl"), help="gets the trained runs")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    # as the engine does; PyG's network gets the same
    torch.set_float32_matmul_precision("high")
    device = torch.device(options.device)
    dataset, name = zinc(options.data)
    print(f"graphs: {name}", flush=True)
    if options.epochs is not None:
        train_both(dataset, name, device, options.epochs, options.ledger)
        return
    for model in MODELS:
        check(model, dataset, device)
    print("outputs and three steps agree with PyG in float64", flush=True)
    results = measure_steps(dataset, device, options.steps, options.repeats)
    show(results["rows"])
    for words, (value, kept) in results["bars"].items():
        print(f"{words}: {value} ({'kept' if kept else 'NOT kept'})")
    if options.out is not None:
        save(options.out, {"about": about(device), "graphs": name, "steps": options.steps, **results})


if __name__ == "__main__":
    main()
