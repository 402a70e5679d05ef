"""Regret of the adviser, in deviations over seeds, against always and never splitting.

For every data set the plain model and the candidate splits of the adviser are trained in full with a few seeds. Regret
is how far the advised model's mean test score is below the better of plain and best split, divided by the deviation
over seeds (pooled over the models). `always` splits by degree, `never` does not. The threshold of the decision is also
chosen on all other sets (leave one out). Data sets are ten generated graphs, whose answer is known by construction, or
the named ones in GRAPHPRISM_DATA.

    python benchmarks/bench_advise.py                       # ten generated graphs
    python benchmarks/bench_advise.py cora citeseer zinc12k # real ones, in full: hours on a CPU, minutes on a GPU
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from dataclasses import replace
from pathlib import Path

import torch

from graphprism.adviser import advise
from graphprism.adviser.advice import default_run
from graphprism.datasets import PackedDataset, load
from graphprism.splitting import Graph, by_order
from graphprism.training import Run, Task, train_lockstep

THRESHOLDS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)


def node_set(name, edge_index, x, y, edge_attr=None):
    """A graph with node targets and five folds of 60, 20 and 20 %.

    A single test fold of 120 nodes is 3 points off by chance, which no deviation over seeds shows.
    """
    count, generator = x.size(0), torch.Generator().manual_seed(1)
    place = torch.stack([torch.randperm(count, generator=generator) for _ in range(5)], 1) / count
    masks = [place < 0.6, (place >= 0.6) & (place < 0.8), place >= 0.8]
    return PackedDataset(
        name=name, level="node", task="multiclass", metric="accuracy", x=x, edge_index=edge_index, y=y,
        node_ptr=torch.tensor([0, count]), edge_ptr=torch.tensor([0, edge_index.size(1)]), edge_attr=edge_attr,
        train_mask=masks[0], val_mask=masks[1], test_mask=masks[2],
        num_classes=int(y.max()) + 1,
    )  # fmt: skip


class Draw:
    """Random graphs by a seed."""

    def __init__(self, seed, nodes=600):
        self.g, self.nodes = torch.Generator().manual_seed(seed), nodes

    def uniform(self, edges=1800):
        return self._both(torch.randint(self.nodes, (2, edges), generator=self.g))

    def hubs(self, edges=1800):
        """Degrees from a few to a hundred."""
        weight = torch.rand(self.nodes, generator=self.g).pow(-0.6)
        return self._both(torch.multinomial(weight, 2 * edges, replacement=True, generator=self.g).view(2, -1))

    def blocks(self, y, share, edges=1800):
        """A share of the edges joins nodes of a class."""
        source, other = torch.randint(self.nodes, (2, edges), generator=self.g)
        order = y.argsort(stable=True)
        begin = torch.cat([torch.zeros(1, dtype=torch.long), torch.bincount(y).cumsum(0)])
        size = torch.bincount(y)[y[source]]
        same = order[begin[y[source]] + (torch.rand(edges, generator=self.g) * size).long()]
        return self._both(torch.stack([source, torch.where(torch.rand(edges, generator=self.g) < share, same, other)]))

    def torus(self, side=24):
        node = torch.arange(side * side).view(side, side)
        return self._both(
            torch.cat([torch.stack([node.flatten(), node.roll(1, axis).flatten()]) for axis in (0, 1)], 1)
        )

    def normal(self, *size):
        return torch.randn(*size, generator=self.g)

    def classes(self, count=3, nodes=None):
        return torch.randint(count, (nodes or self.nodes,), generator=self.g)

    @staticmethod
    def _both(edges):
        edges = edges[:, edges[0] != edges[1]]
        return torch.unique(torch.cat([edges, edges.flip(0)], 1), dim=1)


def mean_of(edge_index, x, chosen):
    """Mean of x over the senders of the chosen edges, by receiver."""
    source, target = edge_index[:, chosen]
    total = torch.zeros_like(x).index_add_(0, target, x[source])
    return total / torch.bincount(target, minlength=x.size(0)).clamp(min=1)[:, None]


def sign(d, values):
    """Two classes by the sign of the first channel; where it is zero, as at a node that receives nothing, by chance."""
    return (values[:, 0] + 1e-6 * d.normal(values.size(0)) > 0).long()


def generated(first):
    """(name, whether a split must help: True, False or None for either, data), drawn by seeds from the first on."""
    d = Draw(first + 0)
    edges = d.torus()
    x = d.normal(576, 8)
    yield "torus: all edges are ties", False, node_set("torus", edges, x, (x[:, 0] > 0).long())
    d = Draw(first + 1)
    edges, x = d.uniform(), d.normal(600, 8)
    yield "labels by features alone", False, node_set("features-alone", edges, x, (x[:, 0] > 0).long())
    d = Draw(first + 2)
    y = d.classes()
    x = torch.nn.functional.one_hot(y, 8) + 2 * d.normal(600, 8)
    yield "classes in blocks, degree says nothing", False, node_set("blocks", d.blocks(y, 0.8), x, y)
    d = Draw(first + 3)
    yield "labels by chance", None, node_set("chance", d.uniform(), d.normal(600, 8), d.classes())
    d = Draw(first + 4)
    edges, x = d.hubs(), d.normal(600, 8)
    heights = by_order("degree")(Graph(edges, 600))
    up = mean_of(edges, x, heights == 0)
    yield "labels by neighbours of smaller degree", True, node_set("smaller", edges, x, sign(d, up))
    d = Draw(first + 5)
    edges, x = d.hubs(), d.normal(600, 8)
    heights = by_order("degree")(Graph(edges, 600))
    opposite = mean_of(edges, x, heights == 0) - mean_of(edges, x, heights == 1)
    yield (
        "neighbours above and below count against each other",
        True,
        node_set("opposite", edges, x, sign(d, opposite)),
    )
    d = Draw(first + 6)
    edges = d.hubs()
    degree = torch.bincount(edges[0], minlength=600).float()
    local = degree - mean_of(edges, degree[:, None], torch.ones(edges.size(1), dtype=torch.bool))[:, 0]
    y = torch.bucketize(local, local.quantile(torch.tensor([1 / 3, 2 / 3])))
    yield "labels by degree beside that of neighbours", True, node_set("local-degree", edges, torch.ones(600, 2), y)
    d = Draw(first + 7)
    edges, x = d.uniform(), d.normal(600, 8)
    types = torch.randint(2, (edges.size(1),), generator=d.g)
    gap = mean_of(edges, x, types == 0) - mean_of(edges, x, types == 1)
    yield (
        "types of edges count against each other",
        True,
        node_set("types", edges, x, sign(d, gap), types[:, None]),
    )
    d = Draw(first + 8)
    edges, x = d.uniform(), d.normal(600, 8)
    types = torch.randint(2, (edges.size(1),), generator=d.g)
    every = mean_of(edges, x, torch.ones(edges.size(1), dtype=torch.bool))
    yield "types of edges say nothing", False, node_set("types-noise", edges, x, sign(d, every), types[:, None])
    d = Draw(first + 9)
    y = d.classes(5)
    x = torch.nn.functional.one_hot(y, 8) + d.normal(600, 8)
    yield "neighbours of other classes", None, node_set("heterophily", d.blocks(y, 0.0), x, y)


def full_scores(run: Run, dataset, candidates, seeds, accelerator):
    """Test scores, larger is better, of the plain model (None) and of every split, by seed."""
    sign = 1 if Task.of(dataset).larger_is_better else -1
    folds = 1 if dataset.train_mask is None else dataset.train_mask.size(1)
    found = {}
    for each in (None, *candidates):
        split, own = (None, run) if each is None else (each.label, each.applied(run))
        runs = [replace(own, seed=seed, fold=seed % folds) for seed in range(100, 100 + seeds)]
        results = train_lockstep(runs, dataset, accelerator=accelerator)
        found[split] = [sign * each.history["test"][each.best_epoch - 1] for each in results if each.best_epoch]
    return found


def in_full(run, dataset, candidates, options):
    """Mean score of the plain model and of every split after full training, and the deviation over seeds."""
    scores = full_scores(run, dataset, candidates, options.seeds, options.accelerator)
    deviation = math.sqrt(statistics.fmean(statistics.variance(each) for each in scores.values()))
    return {str(split): statistics.fmean(each) for split, each in scores.items()}, deviation


def known_full(name, file):
    """The same from the file of an earlier call; None without a file."""
    lines = file.read_text().splitlines() if file else ()
    found = next((each for each in map(json.loads, lines) if each["set"] == name), None)
    return found and (found["means"], found["deviation"])


def measure(name, dataset, expected, options):
    run = default_run(dataset)
    if dataset.level == "node" and name.startswith("generated"):
        # features are real numbers here, and all nodes of the training fold have labels: nothing to hold back
        run = replace(run, width=32, epochs=200, patience=50, dropout=0.0, input_dropout=False, row_normalise=False)
        run = replace(run, weight_decay=0.0)
    started = time.perf_counter()
    advice = advise(
        dataset, run=run, seconds=options.seconds, accelerator=options.accelerator,
        clock=time.process_time if options.accelerator == "cpu" else time.perf_counter,
    )  # fmt: skip
    took = time.perf_counter() - started
    tried = [each for each in advice.evidence if each.ratio is not None]
    best = max(tried, key=lambda each: each.difference, default=None)
    by_degree = next(each.candidate for each in advice.evidence if each.candidate.split == "degree")
    # in full: the plain model and every split that could have been advised, tried or not
    chosen = {each.candidate.label: each.candidate for each in advice.evidence if not each.candidate.left_out}
    chosen.setdefault(by_degree.label, by_degree)
    means, deviation = known_full(name, options.full) or in_full(run, dataset, chosen.values(), options)
    advised_label = None if advice.split is None else best.candidate.label
    return {
        "set": name,
        "expected": expected,
        "advised": advised_label,
        "by_degree": by_degree.label,
        "confidence": advice.confidence,
        "ratio": None if best is None else best.ratio,
        "best_tried": None if best is None else best.candidate.label,
        "means": means,
        "deviation": deviation,
        "seeds": options.seeds,
        "seconds": took,
        "sentence": advice.sentence,
    }


def regret(record, split):
    """Deviations over seeds below the better of plain and the best split; where none deviates, 0 for equal means."""
    gap = max(record["means"].values()) - record["means"][str(split)]
    return 0.0 if gap < 1e-12 else gap / max(record["deviation"], 1e-9)


def advised(record, threshold):
    return record["best_tried"] if record["ratio"] is not None and record["ratio"] >= threshold else None


def left_out(records):
    """Regret of every set with the threshold that is best on all others; of equals the one in use."""
    found = []
    for record in records:
        others = [each for each in records if each is not record]
        mean = {t: statistics.fmean(regret(each, advised(each, t)) for each in others) for t in THRESHOLDS}
        threshold = min(THRESHOLDS, key=lambda t: (mean[t], abs(t - 1.0)))
        found.append(regret(record, advised(record, threshold)))
    return found


def summary(records):
    ways = {
        "adviser": [regret(each, each["advised"]) for each in records],
        "leave one out": left_out(records) if len(records) > 1 else [],
        "always by degree": [regret(each, each["by_degree"]) for each in records],
        "never": [regret(each, None) for each in records],
    }
    return {way: {"mean": statistics.fmean(each), "max": max(each)} for way, each in ways.items() if each}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", help="names of data sets; without one the generated graphs")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--accelerator", default="cpu")
    parser.add_argument("--draw", type=int, default=0, help="first seed of the generated graphs")
    parser.add_argument("--graphs", type=int, default=0, help="graphs for training at most, of sets of graphs")
    parser.add_argument("--full", type=Path, help="file of an earlier call, whose full trainings count again")
    parser.add_argument("--out", type=Path, default=Path("outputs/advise.jsonl"))
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    known = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    chosen = [(name, None, None) for name in options.sets] or [
        (f"generated: {n}", e, d) for n, e, d in generated(options.draw)
    ]
    for name, expected, dataset in chosen:
        if any(each["set"] == name for each in known):
            continue
        dataset = load(name) if dataset is None else dataset
        if dataset.level == "graph" and options.graphs:
            from graphprism.adviser.trial import part_of

            dataset = part_of(dataset, options.graphs, options.graphs // 8)
        record = measure(name, dataset, expected, options)
        known.append(record)
        with options.out.open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(json.dumps(record), flush=True)
    for way, each in summary(known).items():
        print(f"{way:>16}: mean regret {each['mean']:.2f}, largest {each['max']:.2f} ({len(known)} sets)")


if __name__ == "__main__":
    main()
