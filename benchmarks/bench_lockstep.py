"""A training step of many runs at once against the published formulation and PyG, on ZINC12k or molecules like it.

    PYTHONPATH=src python benchmarks/bench_lockstep.py --data FOLDER --out benchmarks/results/DATE-HARDWARE.json

Eight layers, 500,000 parameters, 32 graphs a step: forward, loss, backward, clipping and AdamW. Before anything is
timed, one step of every contender of the engine is compared with the eager engine's on the same batch.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import measure
import torch
from torch_geometric.data import Batch
from training_contenders import PygGCN, PygTrainer, pyg_graphs
from zinc_step import Published

from graphprism.datasets import PackedDataset, load, molecules
from graphprism.training import Run, build_model
from graphprism.training.lockstep.data import TableDataset
from graphprism.training.lockstep.engine import LockstepEngine
from graphprism.training.optim import epoch_order
from graphprism.training.schedule import learning_rate

LAYERS, BATCH, STEPS = 8, 32, 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--runs", default="1,9,27")
    parser.add_argument("--models", default="mrs-gcn,gcn")
    parser.add_argument("--precisions", default="float32,bf16")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--without-others", action="store_true", help="leave PyG and the published form out")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    device = torch.device(args.device)
    torch.set_float32_matmul_precision("high")
    dataset = load("zinc12k", args.data) if args.data else molecules()
    contenders: dict[str, Callable[[], object]] = {}
    counts: dict[str, int] = {}
    if not args.without_others:
        contenders |= others(dataset, device)
    for model in args.models.split(","):
        for precision in args.precisions.split(","):
            check(model, precision, dataset, device)
            for count in map(int, args.runs.split(",")):
                name = f"{model}, {count} at once, {precision}"
                contenders[name], counts[name] = lockstep(model, precision, count, dataset, device), count
    times = measure.seconds(contenders, args.repeats, device)
    base = next(iter(counts))
    base_time = sorted(times[base])[len(times[base]) // 2]
    rows = []
    for name, found in times.items():
        per_run = [each / counts.get(name, 1) for each in found]
        rows.append(measure.row(dataset.name, name, per_run, None, base_time))
    print("milliseconds a step and run")
    measure.show(rows)
    if args.out:
        measure.save(args.out, {"about": measure.about(device), "rows": rows})


def runs_of(model: str, precision: str, count: int) -> list[Run]:
    return [
        Run("zinc12k", model, layers=LAYERS, lr=3e-4, seed=seed, precision=precision, batch_size=BATCH, warmup=0)
        for seed in range(count)
    ]


def lockstep(
    model: str, precision: str, count: int, dataset: PackedDataset, device: torch.device
) -> Callable[[], object]:
    runs = runs_of(model, precision, count)
    data = TableDataset(runs[0], dataset, device, torch.float32)
    group = LockstepEngine(runs, dataset, data, device)
    graphs = group.graphs(0)[:STEPS]
    group.begin(0)
    place = [0]
    steps: list[Callable[[], None]] = []

    def run() -> None:
        if place[0] % STEPS == 0:
            steps[:] = group.lay_ready(graphs)
        steps[place[0] % STEPS]()
        place[0] += 1

    return run


def others(dataset: PackedDataset, device: torch.device) -> dict[str, Callable[[], object]]:
    """PyG's GCN and the published formulation, over batches that lie ready on the device."""
    chosen = dataset.subset("train")[: 20 * BATCH]
    graphs = pyg_graphs(dataset, chosen, relations=False)
    batches = [Batch.from_data_list(graphs[i : i + BATCH]).to(device) for i in range(0, len(graphs), BATCH)]
    pyg = PygTrainer(PygGCN(247, LAYERS, 28), graphs, BATCH, 3e-4, device)
    published = PygTrainer(Published(143), graphs, BATCH, 3e-4, device)

    def turns(trainer: PygTrainer) -> Callable[[], object]:
        place = [0]

        def run() -> object:
            place[0] += 1
            return trainer.step(batches[place[0] % len(batches)])

        return run

    return {"published formulation": turns(published), "PyG GCN": turns(pyg)}


def check(model: str, precision: str, dataset: PackedDataset, device: torch.device) -> None:
    """Two runs after three steps against the eager engine's, weight by weight."""
    from graphprism.training import Task
    from graphprism.training.optim import make_optimizer
    from graphprism.training.prepared_data import PreparedDataset

    torch.set_float32_matmul_precision("highest")
    runs = runs_of(model, precision, 2)
    data = TableDataset(runs[0], dataset, device, torch.float32)
    group = LockstepEngine(runs, dataset, data, device)
    group.begin(0)
    for step in group.lay_ready(group.graphs(0)[:3]):
        step()
    run = runs[1]
    network = build_model(run, dataset).to(device)
    optimizer = make_optimizer(run, network.parameters())
    for settings in optimizer.param_groups:
        settings["lr"] = learning_rate(run, 0)
    train = dataset.subset("train")
    order = train[epoch_order(run.seed, 0, train.numel())][: 3 * BATCH]
    first = {name: value.clone() for name, value in network.state_dict().items()}
    for batch in PreparedDataset(run, dataset, device).batches(order, BATCH):
        loss = Task.of(dataset).losses(network(**batch.inputs), batch.y).sum() / batch.total
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), run.clip)
        optimizer.step()
        optimizer.zero_grad()
    ours = group.networks.parameters.extract(1)
    moved = torch.cat([(network.state_dict()[name] - first[name]).flatten().cpu() for name in first])
    gap = torch.cat([(network.state_dict()[name].cpu() - ours[name]).flatten() for name in first])
    torch.set_float32_matmul_precision("high")
    share = float(gap.norm() / moved.norm())
    # TF32 in the fused kernels; Adam's first steps follow signs, which rounding can turn
    limit = 1.0 if precision == "bf16" else 0.3
    print(f"{model}, {precision}: after three steps {share:.1e} of the way apart from the eager engine", flush=True)
    if not share < limit:
        raise SystemExit(f"{model}, {precision}: lockstep differs from the eager engine by {share:.2g} of the way")


if __name__ == "__main__":
    main()
