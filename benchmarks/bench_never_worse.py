"""PyG's own recipes with the layer swapped: the plain network against the split one, seed by seed.

    PYTHONPATH=src python benchmarks/bench_never_worse.py --data FOLDER --device cuda --out benchmarks/results/DATE.json

The recipes are those of PyG's examples gcn.py, gat.py and link_pred.py on Cora, CiteSeer and PubMed: widths, dropout,
epochs and optimiser lines as they are there, deeper networks with more layers of the same width. The split network has
the layer's defaults, by degree, self-loops added before the split; once at the width of the plain one and once at the
width that keeps its number of parameters. The plain layer is ours with one relation, which is PyG's layer (tests). All
seeds of a cell are trained in step, each with its own weights and dropout, on a GPU at once; a test score is that of
the best validation epoch. Intervals are of the mean of paired differences, 95 %.

A pair shares all that is drawn: plain and split network of one seed and width begin with the same weights, which a
shared start makes the same function, and get the same dropout masks and the same negative edges in every step. At the
first step their losses are equal (tests/test_never_worse.py). `--width` replaces the width of the recipe: deep networks
of 16 channels hardly train, and which of their seeds do makes intervals wide. More seeds (`--seeds 100`) narrow them.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch_geometric.transforms as T
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.utils import negative_sampling

from graphprism._files import write_whole
from graphprism.datasets import load
from graphprism.nn import MRSGATConv, MRSGCNConv
from graphprism.nn.conv.relational_weight import DECAY, RelationalParameter
from graphprism.ops import RelationalAdj
from graphprism.ops.sparse_features import sparse_with_values
from graphprism.training import fit_width
from graphprism.transforms import SplitEdges

SETS = ("cora", "citeseer", "pubmed")
# Quantiles of Student's t for 95 % by degrees of freedom, for 3, 5, 10, 20, 40 and 100 seeds.
STUDENT = {2: 4.303, 4: 2.776, 9: 2.262, 19: 2.093, 39: 2.023, 99: 1.984}


@dataclass(frozen=True)
class Recipe:
    """What one of PyG's examples does."""

    name: str
    width: int
    lr: float
    decays: tuple[float, float]  # weight decay of the first layer, and of the others
    dropout: float
    epochs: int


RECIPES = {
    each.name: each
    for each in (
        Recipe("gcn.py", 16, 0.01, (5e-4, 0.0), 0.5, 200),
        Recipe("gat.py", 8, 0.005, (5e-4, 5e-4), 0.6, 200),
        Recipe("link_pred.py", 128, 0.01, (0.0, 0.0), 0.0, 100),
    )
}


class Network(torch.nn.Module):
    """Convolutions of one width, as the example stacks them."""

    def __init__(self, recipe: Recipe, layers: int, width: int, sizes: tuple[int, int], **options: Any) -> None:
        super().__init__()
        self.recipe = recipe
        in_channels, out_channels = sizes
        attends = recipe.name == "gat.py"
        hidden = width * 8 if attends else width
        convs = []
        for number in range(layers):
            last, i = number == layers - 1, in_channels if number == 0 else hidden
            if attends:
                heads = {"heads": 1, "concat": False} if last else {"heads": 8}
                convs.append(MRSGATConv(i, out_channels if last else width, dropout=recipe.dropout, **heads, **options))
            else:
                convs.append(MRSGCNConv(i, out_channels if last else width, **options))
        self.convs = torch.nn.ModuleList(convs)

    def forward(self, x: Tensor, adj: RelationalAdj) -> Tensor:
        """A row of outputs for every node."""
        activation = torch.nn.functional.elu if self.recipe.name == "gat.py" else torch.relu
        for number, conv in enumerate(self.convs):
            x = x if number == 0 else activation(x)
            x = conv(self._dropout(x), adj)
        return x

    def _dropout(self, x: Tensor) -> Tensor:
        drop: Callable[[Tensor], Tensor] = partial(
            torch.nn.functional.dropout, p=self.recipe.dropout, training=self.training
        )
        # a zero stays a zero, dropped or not
        return sparse_with_values(x, drop(x.values())) if x.layout == torch.sparse_csr else drop(x)


@dataclass
class Task:
    """A graph to pass messages on, and how outputs become a loss and scores, for K networks at once."""

    data: Data
    outputs: Callable[[int], int]  # size of an output row, by the width
    loss: Callable[[Tensor], Tensor]  # (K, N, F) -> (K,)
    scores: Callable[[Tensor], tuple[Tensor, Tensor]]  # validation and test, (K,) each, in percent


def node_task(data: Data) -> Task:
    """Classes of nodes."""
    masks = [getattr(data, f"{fold}_mask") for fold in ("train", "val", "test")]
    train, val, test = (mask.view(len(data.y), -1)[:, 0].bool() for mask in masks)

    def loss(out: Tensor) -> Tensor:
        known = out[:, train].log_softmax(dim=-1)
        return -known.gather(2, data.y[train].view(1, -1, 1).expand(len(out), -1, 1)).mean(dim=(1, 2))

    def scores(out: Tensor) -> tuple[Tensor, Tensor]:
        right = (out.argmax(dim=-1) == data.y).float() * 100
        return right[:, val].mean(dim=1), right[:, test].mean(dim=1)

    return Task(data, lambda _: int(data.y.max()) + 1, loss, scores)


def link_task(data: Data) -> Task:
    """Edges from non-edges by the product of their ends; the split comes after `RandomLinkSplit`, on what it leaves."""
    seed_everything(12345)  # edges that are none are drawn by Python's own generator
    division = T.RandomLinkSplit(num_val=0.05, num_test=0.1, is_undirected=True, add_negative_train_samples=False)
    train, val, test = division(data)
    known = train.edge_label_index

    def score_of(out: Tensor, edges: Tensor) -> Tensor:
        return (out[:, edges[0]] * out[:, edges[1]]).sum(dim=-1)

    def loss(out: Tensor) -> Tensor:
        others = negative_sampling(train.edge_index.cpu(), train.num_nodes, known.size(1)).to(out.device)
        label = torch.cat([out.new_ones(known.size(1)), out.new_zeros(others.size(1))]).expand(len(out), -1)
        logit = score_of(out, torch.cat([known, others], dim=1))
        return torch.nn.functional.binary_cross_entropy_with_logits(logit, label, reduction="none").mean(dim=1)

    def auroc(out: Tensor, part: Data) -> Tensor:
        rank = score_of(out, part.edge_label_index).argsort(dim=1).argsort(dim=1).double() + 1
        positive = part.edge_label.bool()
        p, n = int(positive.sum()), int((~positive).sum())
        return 100 * (rank[:, positive].sum(dim=1) - p * (p + 1) / 2) / (p * n)

    return Task(train, lambda width: max(1, width // 2), loss, lambda out: (auroc(out, val), auroc(out, test)))


def make_task(recipe: Recipe, name: str, folder: str, device: torch.device) -> Task:
    """The data of an example: features add up to one, loops are added, edges are split by degree."""
    packed = load(name, root=folder)
    data = T.NormalizeFeatures()(packed.graph(0)).to(device)
    data.y = data.y.view(-1)
    task = link_task(data) if recipe.name == "link_pred.py" else node_task(data)
    task.data = SplitEdges("degree")(T.AddSelfLoops()(task.data))
    return task


def count(recipe: Recipe, layers: int, width: int, task: Task, **options: Any) -> int:
    """Parameters of a network."""
    with torch.device("meta"):
        network = Network(recipe, layers, width, (task.data.num_features, task.outputs(width)), **options)
    return sum(parameter.numel() for parameter in network.parameters())


def train(
    recipe: Recipe, task: Task, layers: int, width: int, seeds: int, **options: Any
) -> tuple[list[float], list[float]]:
    """Test and validation scores of all seeds, at the best validation epoch."""
    device = task.data.x.device
    run, parameters = start(recipe, task, layers, width, seeds, **options)
    groups = [
        {"params": [value for name, value in parameters if name.startswith("convs.0.") == first], "weight_decay": decay}
        for first, decay in zip((True, False), recipe.decays, strict=True)
    ]
    optimizer = torch.optim.Adam(groups, lr=recipe.lr)
    best, found = torch.full((seeds,), -1.0, device=device), torch.zeros(seeds, device=device)
    for _ in range(recipe.epochs):
        optimizer.zero_grad()
        task.loss(run(True)).sum().backward()
        optimizer.step()
        with torch.no_grad():
            val, test = (score.float() for score in task.scores(run(False)))
        found, best = torch.where(val > best, test, found), torch.maximum(val, best)
    scores = ([round(score, 4) for score in each.tolist()] for each in (found, best))
    return next(scores), next(scores)


Outputs = Callable[[bool], Tensor]  # (K, N, F) of K networks, in training or not


def start(
    recipe: Recipe, task: Task, layers: int, width: int, seeds: int, **options: Any
) -> tuple[Outputs, list[tuple[str, Tensor]]]:
    """Networks of all seeds and their parameters, with the generators set to what the other one of a pair gets."""
    data, relations = task.data, options["num_relations"]
    adj = RelationalAdj(
        data.edge_index, data.edge_type if relations > 1 else None, num_relations=relations, num_nodes=data.num_nodes
    )
    between, networks = options.pop("between", 0.0), []
    for seed in range(seeds):
        torch.manual_seed(seed)
        sizes = (data.num_features, task.outputs(width))
        networks.append(Network(recipe, layers, width, sizes, **options).to(data.x.device))
        if between > 0:
            move_apart(networks[-1], between)
    started = (at_once if data.x.device.type == "cuda" else one_by_one)(networks, data.x, adj)
    seed_everything(0)  # Python's own generator, too: it draws the edges that are none
    return started


def move_apart(network: Network, share: float) -> None:
    """Adds a share of independent matrices, less their mean, to those of each layer's relations."""
    for part in network.modules():
        if isinstance(part, RelationalParameter):
            with torch.no_grad():
                matrices = part()
                drawn = torch.empty_like(matrices).uniform_(-1, 1) * matrices.abs().max()
                part.set_(matrices + share * (drawn - drawn.mean(dim=0)))


def at_once(networks: list[Network], x: Tensor, adj: RelationalAdj) -> tuple[Outputs, list[tuple[str, Tensor]]]:
    """All networks as one, and their parameters, for a GPU."""
    stacked, buffers = torch.func.stack_module_state(networks)
    template = networks[0]

    def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor]) -> Tensor:
        out: Tensor = torch.func.functional_call(template, (parameters, buffers), (x, adj))
        return out

    together: Any = torch.vmap(one, randomness="different")

    def run(training: bool) -> Tensor:
        template.train(training)
        out: Tensor = together(stacked, buffers)
        return out

    return run, list(stacked.items())


def one_by_one(networks: list[Network], x: Tensor, adj: RelationalAdj) -> tuple[Outputs, list[tuple[str, Tensor]]]:
    """Each network on its own, and their parameters, for a CPU: features that are mostly zeros are stored as such."""
    x, adj = x.to_sparse_csr(), adj.prepare()

    def run(training: bool) -> Tensor:
        return torch.stack([network.train(training)(x, adj) for network in networks])

    return run, [pair for network in networks for pair in network.named_parameters()]


def interval(differences: list[float]) -> tuple[float, float]:
    """Mean and half of its 95 % interval."""
    number = len(differences)
    mean = sum(differences) / number
    deviation = math.sqrt(sum((each - mean) ** 2 for each in differences) / (number - 1))
    return mean, STUDENT[number - 1] * deviation / math.sqrt(number)


def cell(recipe: Recipe, name: str, layers: int, options: argparse.Namespace) -> dict[str, Any]:
    """Plain, split at equal width, split at equal parameters."""
    task = make_task(recipe, name, options.data, torch.device(options.device))
    budget = count(recipe, layers, recipe.width, task, num_relations=1)
    split = {"num_relations": 3, "start": options.start, "decay": options.decay, "deviation": options.deviation}
    apart = split | {"between": options.between}
    narrow = fit_width(budget, lambda width: count(recipe, layers, width, task, **split))
    found: dict[str, Any] = {"recipe": asdict(recipe), "dataset": name, "layers": layers, "seeds": options.seeds}
    found |= {name: apart[name] for name in ("start", "decay", "deviation", "between")}
    contenders: dict[str, tuple[dict[str, Any], int]] = {
        "plain": ({"num_relations": 1}, recipe.width),
        "equal width": (apart, recipe.width),
        "equal parameters": (apart, narrow),
    }
    for contender, (own, width) in contenders.items():
        begin = time.perf_counter()
        scores, validation = train(recipe, task, layers, width, options.seeds, **own)
        found[contender] = {
            "width": width,
            "parameters": budget if contender == "plain" else count(recipe, layers, width, task, **split),
            "scores": scores,
            "validation": validation,
            "seconds": round(time.perf_counter() - begin, 1),
        }
        if contender != "plain":
            differences = [b - a for a, b in zip(found["plain"]["scores"], scores, strict=True)]
            mean, half = interval(differences)
            found[contender] |= {
                "difference": round(mean, 3),
                "interval": [round(mean - half, 3), round(mean + half, 3)],
            }
    return found


def main() -> None:
    """Runs the cells of this part and stores them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with cora.npz, citeseer.npz, pubmed.npz")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--layers", default="2,8,32")
    parser.add_argument("--width", type=int, help="of hidden layers, for all recipes; theirs without it")
    parser.add_argument("--seeds", type=int, default=20, choices=[number + 1 for number in STUDENT])
    parser.add_argument("--start", default="shared", help="of relations: shared or independent")
    parser.add_argument("--decay", type=float, default=DECAY)
    parser.add_argument("--between", type=float, default=0.0, help="share of independent matrices in a shared start")
    parser.add_argument("--deviation", default="full", help="form of the deviations of relations: full or diagonal")
    parser.add_argument("--part", default="1/1", help="I/N: every N-th cell from the I-th, for N processes")
    parser.add_argument("--out", required=True, help="a JSON file, written anew after every cell")
    options = parser.parse_args()
    part, parts = (int(number) for number in options.part.split("/"))
    cells = [
        (replace(RECIPES[recipe], width=options.width or RECIPES[recipe].width), name, int(layers))
        for layers in options.layers.split(",")
        for recipe in options.recipes.split(",")
        for name in options.sets.split(",")
    ]
    done = []
    for recipe, name, layers in cells[part - 1 :: parts]:
        done.append(cell(recipe, name, layers, options))
        text = ", ".join(f"{k} {v['difference']:+.2f} {v['interval']}" for k, v in done[-1].items() if "equal" in k)
        plain = sum(done[-1]["plain"]["scores"]) / options.seeds
        print(f"{recipe.name} {name} {layers} layers of {recipe.width}: plain {plain:.2f}, {text}", flush=True)
        write_whole(Path(options.out), json.dumps(done, indent=1), "results")


if __name__ == "__main__":
    main()
