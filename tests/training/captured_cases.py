"""Runs that lockstep does not take, for the tests of captured steps of the eager engine."""

import torch

from graphprism.datasets import molecules
from graphprism.nn import REMEDIES
from graphprism.nn.models.remedies import SPLITTABLE
from graphprism.training import Run
from graphprism.training.eager import EagerEngine
from graphprism.training.processes import make_fabric

# A small norm of the gradient, so that clipping counts; batches of 16, 16, 16 and 2 graphs, in a new order every epoch.
BASE = {"layers": 3, "width": 8, "epochs": 3, "warmup": 1, "batch_size": 16, "clip": 0.1, "precision": "float64"}
RUNS = {
    **{remedy: Run(model="gcn", remedy=remedy, **BASE) for remedy in REMEDIES},
    **{f"{remedy}, split": Run(model="mrs-gcn", remedy=remedy, **BASE) for remedy in SPLITTABLE},
    "directed": Run(model="mrs-dir-gcn", norm="batch", **BASE),
    "directed GAT": Run(model="dir-gat", residual=True, **BASE),
    "learned split": Run(learned_split=True, **BASE),
    "learned split, SAGE": Run(model="mrs-sage", learned_split=True, jk="cat", norm="batch", **BASE),
    "gated": Run(model="mrs-gated-gcn", residual=True, **BASE),
    "LMGC": Run(model="lmgc", **BASE),
    "MLP": Run(model="mlp", **BASE),
    "signs": Run(model="mrs-dir-sage", pe=3, pe_encoder="deepset", **BASE),
    "walks": Run(model="mrs-gine", pe=3, pe_encoder="walk", walk_steps=4, edge_walks=True, ffn=True, **BASE),
}
SET = molecules(60)


def by_position(x, share, generator=None):
    """A mask in place of `keep_mask` that padding does not change, and without random numbers."""
    return (torch.arange(x.size(0), device=x.device) % 5 > 0).expand(x.shape)


def make_engine(run, captures, device="cpu", dataset=SET):
    return EagerEngine(make_fabric(run, device, 1, 1), run, dataset, captures)


def trained(engine, epochs=range(3)):
    """Losses, scores and scores of the validation fold of some epochs, and the state after them."""
    numbers = []
    for epoch in epochs:
        found = engine.train_epoch(epoch)
        numbers.append([*found.loss, *found.score, *engine.evaluate("val")[0]])
    return torch.tensor(numbers), engine.state()
