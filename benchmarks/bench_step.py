"""A training step of MRS-GCN and GCN: ours alone and many runs at once, the published formulation, and PyG.

    PYTHONPATH=src python benchmarks/bench_step.py --data FOLDER --out benchmarks/results/DATE-HARDWARE.json

Eight layers, 500,000 parameters, 32 graphs a step: forward, loss, backward, clipping and AdamW, over batches preloaded
on the device. On ZINC12k (--data or GRAPHPRISM_DATA), or on generated molecules if zinc12k.npz is missing. Before any
timing all networks must give our losses with the same weights in float64, at first and after three steps, and lockstep
is compared with the eager engine. A shared start has other steps: it is compared at first only.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle, product
from pathlib import Path

import measure
import torch
from bench_training import zinc
from published import PublishedGCN
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.nn import global_add_pool
from training_contenders import PygGCN, PygTrainer, copy_weights, pyg_graphs

from graphprism.datasets import PackedDataset
from graphprism.nn import GNN
from graphprism.ops import RelationalAdj
from graphprism.ops.batches import select_graphs
from graphprism.splitting import by_order
from graphprism.training import CapturedStep, Run, build_model
from graphprism.training.lockstep.data import TableDataset
from graphprism.training.lockstep.engine import LockstepEngine
from graphprism.training.optim import epoch_order, make_optimizer
from graphprism.training.prepared_data import PreparedDataset
from graphprism.training.schedule import learning_rate
from graphprism.training.task import Task

LAYERS, BATCH, STEPS, BATCHES = 8, 32, 300, 20
LR = 3e-4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with zinc12k.npz")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--runs", default="1,9,27", help="runs in lockstep; empty for none")
    parser.add_argument("--models", default="mrs-gcn,gcn", help="of the runs in lockstep")
    parser.add_argument("--starts", default="independent,shared", help="of relations of the runs in lockstep")
    parser.add_argument("--precisions", default="float32,bf16", help="of the runs in lockstep")
    parser.add_argument(
        "--contender", action="append", help="one of those alone, beside ours; again for more; default: all"
    )
    parser.add_argument("--compiled", action="store_true", help='alone with torch.compile(mode="reduce-overhead")')
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    device = torch.device(args.device)
    dataset, name = zinc(args.data)
    print(f"graphs: {name}", flush=True)
    check_networks(dataset, device, args.compiled, args.contender)
    torch.set_float32_matmul_precision("high")  # the setting of training, for all contenders
    contenders = steps(networks(dataset, device, compiled=args.compiled, only=args.contender), dataset, device)
    counts = dict.fromkeys(contenders, 1)
    at_once = [int(count) for count in args.runs.split(",") if count]
    models, starts = args.models.split(","), args.starts.split(",")
    kinds = [(m, s) for m in models for s in starts if m != "gcn" or s == starts[0]]  # one relation has one start
    for (model, start), precision in product(kinds if at_once else [], args.precisions.split(",")):
        check_lockstep(runs_of(model, precision, 2, start), dataset, device)
        for count in at_once:
            words = f"lockstep {model}, {count} at once, {precision}{', shared start' * (start == 'shared')}"
            contenders[words], counts[words] = lockstep(runs_of(model, precision, count, start), dataset, device), count
    times = measure.seconds(contenders, args.repeats, device)
    base = statistics.median(times[OURS])
    rows = [
        measure.row(name, contender, [each / counts[contender] for each in found], None, base)
        for contender, found in times.items()
    ]
    print("milliseconds a step and run")
    measure.show(rows)
    for bar in bars({row["contender"]: row["ms"] for row in rows}, device):
        print(bar, flush=True)
    if args.out:
        measure.save(args.out, {"about": measure.about(device), "rows": rows})


def bars(ms: dict[str, float], device: torch.device) -> list[str]:
    """What an eager step is to reach, in words: on a CPU 0.7 of PyG's GCN with its norm prepared, on a GPU PyG's."""
    prepared = "PyG GCNConv, norm prepared"
    wanted = [(OURS, prepared, 0.7)]
    if device.type == "cuda":
        wanted = [
            (OURS, "PyG GCNConv", 1.0),
            (SHARED, "PyG GCNConv", 1.0),
            (f"{OURS}, batches prepared", prepared, 1.0),
        ]
    found = [(ours, theirs, limit) for ours, theirs, limit in wanted if ours in ms and theirs in ms]
    ratios = [(f"{ours} over {theirs}", ms[ours] / ms[theirs], limit) for ours, theirs, limit in found]
    return [f"{'kept  ' if r <= limit else 'MISSED'} {name}: {r:.2f} (at most {limit})" for name, r, limit in ratios]


OURS = "graphprism"
CAPTURED, SHARED = f"{OURS}, CapturedStep", f"{OURS}, shared start"
# Contenders beside a compiled network.
KEEP = (f"{OURS}, batches prepared", "published", "PyG GCNConv", "PyG GCNConv, norm prepared")


class OnBatches(torch.nn.Module):
    """Our network on PyG's batches; ``graph_of`` gives the graph of a batch in the form that the network is to take.

    With ``sized`` it is told the number of graphs, where compiled or captured code cannot look for it.
    """

    def __init__(
        self, network: torch.nn.Module, graph_of: Callable[[Batch], tuple[object, ...]], sized: bool = False
    ) -> None:
        super().__init__()
        self.network, self.graph_of, self.sized = network, graph_of, sized

    def forward(self, batch: Batch) -> Tensor:
        more = {"batch_size": batch.num_graphs} if self.sized else {}
        return self.network(batch.x, *self.graph_of(batch), batch=batch.batch, **more)


class LayerByLayer(torch.nn.Module):
    """Our layers in a network of one's own: each gets the tensors, as PyG's do."""

    def __init__(self, network: GNN) -> None:
        super().__init__()
        self.encoder, self.convs, self.head = network.encoder, network.convs, network.head

    def forward(self, batch: Batch) -> Tensor:
        h = self.encoder(batch.x.view(-1))
        for conv in self.convs:
            h = conv(h, batch.edge_index, batch.edge_type).relu()
        return self.head(global_add_pool(h, batch.batch))


def networks(
    dataset: PackedDataset,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    compiled: bool = False,
    only: list[str] | None = None,
) -> dict[str, torch.nn.Module]:
    """All networks that take one step at a time, or ``only`` some beside ours; those of a model have equal weights."""
    types = dataset.node_types[0]
    models = {name: build_model(runs_of(name, "float32", 1)[0], dataset) for name in ("mrs-gcn", "gcn")}
    mrs, gcn = models["mrs-gcn"], models["gcn"]
    sizes = {name: (model.hidden_channels, LAYERS, types) for name, model in models.items()}
    chosen = dataset.subset("train")[: BATCHES * BATCH]
    whole = Batch.from_data_list(pyg_graphs(dataset, chosen, relations=True)).to(device)
    prepared = RelationalAdj(whole.edge_index, whole.edge_type, num_relations=3, num_nodes=whole.num_nodes)
    prepared, split = prepared.normalized("sym", dtype), by_order("degree")

    kept: dict[int, RelationalAdj] = {}

    def another(start: str = "independent") -> GNN:
        model = build_model(runs_of("mrs-gcn", "float32", 1, start)[0], dataset)
        model.load_state_dict(mrs.state_dict())
        return model

    def kept_graph(batch: Batch) -> tuple[RelationalAdj]:
        place = batch.edge_index.data_ptr()
        if place not in kept:
            adj = RelationalAdj(batch.edge_index, batch.edge_type, num_relations=3, num_nodes=batch.num_nodes)
            kept[place] = adj.normalized("sym", dtype)
        return (kept[place],)

    found = {
        OURS: OnBatches(mrs, lambda batch: (batch.edge_index, batch.edge_type)),
        f"{OURS}, own network of layers": LayerByLayer(another()),
        f"{OURS}, split in the step": OnBatches(another(), lambda batch: (batch.edge_index, split(batch))),
        f"{OURS}, data set prepared": OnBatches(
            another(), lambda batch: (select_graphs(prepared, whole.ptr, batch.number),)
        ),
        f"{OURS}, batches prepared": OnBatches(another(), kept_graph, sized=True),
        SHARED: OnBatches(another("shared"), lambda batch: (batch.edge_index, batch.edge_type)),
        CAPTURED: OnBatches(another(), lambda batch: (batch.edge_index, batch.edge_type), sized=True),
        "published": PublishedGCN(*sizes["mrs-gcn"]),
        f"{OURS} GCN": OnBatches(gcn, lambda batch: (batch.edge_index,)),
        "PyG GCNConv": PygGCN(*sizes["gcn"]),
        "PyG GCNConv, norm prepared": PygGCN(*sizes["gcn"], prepared=True),
    }
    if compiled:
        # with few others: beside the graph of a CapturedStep torch 2.11 ended in an illegal memory access
        found = {name: each for name, each in found.items() if name in (OURS, f"{OURS} GCN", *KEEP)}
        found[f"{OURS}, batches prepared, compiled"] = OnBatches(
            torch.compile(another().to(device, dtype), mode="reduce-overhead"), kept_graph, sized=True
        )
    copy_weights(mrs, found["published"])
    for name in ("PyG GCNConv", "PyG GCNConv, norm prepared"):
        copy_weights(gcn, found[name])
    if only is not None and (unknown := [name for name in only if name not in found]):
        raise SystemExit(f"--contender must be one of {'; '.join(found)}, got {'; '.join(unknown)}")
    names = found if only is None else {OURS, f"{OURS} GCN", *only}  # the two whose losses the others must have
    return {name: network.to(device, dtype) for name, network in found.items() if name in names}


def steps(
    networks: dict[str, torch.nn.Module],
    dataset: PackedDataset,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    batches: int = BATCHES,
) -> dict[str, Callable[[], Tensor]]:
    """A step of each network on the next batch."""
    chosen = dataset.subset("train")[: batches * BATCH]
    graphs = pyg_graphs(dataset, chosen, relations=True, norm=True, dtype=dtype)
    for number, graph in enumerate(graphs):
        graph.number = torch.tensor([number])
    ready = [Batch.from_data_list(graphs[i : i + BATCH]).to(device) for i in range(0, len(graphs), BATCH)]

    def step(name: str, network: torch.nn.Module) -> Callable[[], Tensor]:
        turn = cycle(ready)
        if name == CAPTURED:
            options = {"lr": LR, "weight_decay": 0.0, "capturable": device.type == "cuda"}
            captured = CapturedStep(
                network, torch.optim.AdamW(network.parameters(), **options), absolute_errors, num_relations=3, clip=1.0
            )
            return lambda: captured(next(turn))
        trainer = PygTrainer(network, graphs[:BATCH], BATCH, LR, device)
        return lambda: trainer.step(next(turn))

    return {name: step(name, network) for name, network in networks.items()}


def absolute_errors(network: torch.nn.Module, batch: Batch) -> Tensor:
    """A loss for each graph."""
    return (network(batch) - batch.y).abs().squeeze(-1)


def check_networks(
    dataset: PackedDataset, device: torch.device, compiled: bool = False, only: list[str] | None = None
) -> None:
    """Refuses to time a wrong answer: losses of all networks of a model in float64, at first and after three steps."""
    found = networks(dataset, device, torch.float64, compiled, only)
    losses = {
        name: torch.stack([step() for _ in range(4)])
        for name, step in steps(found, dataset, device, torch.float64, batches=1).items()
    }
    for name, loss in losses.items():
        expected = losses[f"{OURS} GCN" if "GCN" in name else OURS]
        if name == SHARED:
            loss, expected = loss[:1], expected[:1]
        # a captured optimiser counts its steps in float32: 1 - 0.999 has four digits there
        rtol = 1e-4 if "CapturedStep" in name else 1e-6
        if not torch.allclose(loss, expected, rtol=rtol, atol=0):
            raise SystemExit(f"{name} must have the losses of ours, {expected.tolist()}, got {loss.tolist()}")
    print("outputs of all networks agree in float64, at first and after three steps", flush=True)


def runs_of(model: str, precision: str, count: int, start: str = "independent") -> list[Run]:
    run = Run("zinc12k", model, layers=LAYERS, lr=LR, precision=precision, batch_size=BATCH, warmup=0, start=start)
    return [replace(run, seed=seed) for seed in range(count)]


def lockstep(runs: list[Run], dataset: PackedDataset, device: torch.device) -> Callable[[], object]:
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


def check_lockstep(runs: list[Run], dataset: PackedDataset, device: torch.device) -> None:
    """Two runs after three steps against the eager engine's, weight by weight."""
    torch.set_float32_matmul_precision("highest")
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
    # TF32 in the fused kernels; Adam's first steps depend on signs of gradients, which rounding can flip
    limit = 1.0 if run.precision == "bf16" else 0.3
    words = f"{run.model}, {run.start}, {run.precision}"
    print(f"{words}: after three steps {share:.1e} of the way apart from the eager engine", flush=True)
    if not share < limit:
        raise SystemExit(f"{words}: lockstep differs from the eager engine by {share:.2g} of the way")


if __name__ == "__main__":
    main()
