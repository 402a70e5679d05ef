"""What ``graphprism train`` is about to do, in words."""

from __future__ import annotations

from collections.abc import Sequence

from graphprism.datasets import PackedDataset
from graphprism.training import Run, build_model
from graphprism.training.build_model import width_of


def train_plan(runs: Sequence[Run], dataset: PackedDataset) -> list[str]:
    """Lines that name the data, each model with its width and parameters, and how they are trained."""
    sizes = " / ".join(f"{dataset.subset(name).numel():,}" for name in ("train", "val", "test"))
    first = {run.model: run for run in reversed(runs)}
    models = [_model(first[name], dataset) for name in dict.fromkeys(run.model for run in runs)]
    data = f"{runs[0].dataset}: {sizes} graphs for training, validation and test, {dataset.task} by {dataset.metric}."
    return [f"{data} {dataset.note}".strip(), *models, _training(runs)]


def _model(run: Run, dataset: PackedDataset) -> str:
    split = f" by {run.split}" if run.model.startswith("mrs-") else ""
    more = {"residual": run.residual, f"jk {run.jk}": run.jk, f"pe {run.pe}": run.pe, f"{run.norm} norm": run.norm}
    words = "".join(f", {word}" for word, on in {**more, f"dropout {run.dropout:g}": run.dropout}.items() if on)
    parameters = sum(weight.numel() for weight in build_model(run, dataset).parameters())
    size = f"width {width_of(run, dataset)}, {parameters:,} parameters"
    return f"{run.model}{split}: {run.layers} layer{'s' * (run.layers > 1)}{words}, {size}."


def _training(runs: Sequence[Run]) -> str:
    run = runs[0]
    rates = ", ".join(f"{rate:g}" for rate in dict.fromkeys(each.lr for each in runs))
    seeds = list(dict.fromkeys(each.seed for each in runs))
    clip = f"gradients clipped at {run.clip:g}" if run.clip else "gradients not clipped"
    decay = f", weight decay {run.weight_decay:g}" if run.weight_decay else ""
    warmup = f" after {run.warmup} epoch{'s' * (run.warmup > 1)} of warm-up" if run.warmup else ""
    rate = f"learning rate {rates}, {run.schedule}{warmup}"
    many = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds"
    length = f"{run.epochs} epochs of batches of {run.batch_size}"
    return f"{length}, {run.optimizer}, {rate}{decay}, {clip}, {run.precision}, {many}: {_count(len(runs))}."


def _count(runs: int) -> str:
    return "1 run" if runs == 1 else f"{runs} runs"
