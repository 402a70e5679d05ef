"""``graphprism train``: turns options into runs, trains them and prints the results."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

import torch
import typer
from rich.console import Console

from graphprism._text import counted, suggest
from graphprism.cli.epoch_log import EpochLog
from graphprism.cli.progress import EpochProgress
from graphprism.cli.run_file import NONE, write_run_file
from graphprism.cli.silent_nodes import silent_nodes
from graphprism.cli.train_table import compare_partners, train_table
from graphprism.datasets import DATASETS, PackedDataset, data_folder, load
from graphprism.datasets.preprocessing import Preprocessing
from graphprism.experiments import Ledger, trainer_for
from graphprism.experiments.find_graph import import_first
from graphprism.experiments.runner import Listener, finished_results, run_missing
from graphprism.known import find_name
from graphprism.nn import BASELINES, CONVOLUTIONS
from graphprism.protocols import plain_model, protocol
from graphprism.results import ACCELERATORS, ENGINES, RunResult
from graphprism.training import Diverged, EpochReport, Run, Task, build_model, data_identity, forget, train
from graphprism.training.build_model import width_of
from graphprism.training.run import canonical_split
from graphprism.training.train import check_run, why_not_lockstep


def train_data(name: str, root: Path | None) -> tuple[str, PackedDataset]:
    """The canonical name of a data set, which keys of runs contain, and the data set; ignores case.

    Raises:
        ValueError: There is no such name.
    """
    folder = data_folder(root)
    name = find_name(name, folder)
    known = sorted({*DATASETS, *(file.stem for file in folder.glob("*.npz"))})
    if name not in known and Path(name).is_dir():
        raise ValueError(f"{name} is a folder, not a data set: {import_first(name)}")
    if name not in known and not name.endswith(".npz") and Path(name).is_file():
        raise ValueError(f"{name} is a file, not a data set: {import_first(str(Path(name).parent))}")
    if name not in known and not name.endswith(".npz"):
        raise ValueError(f"{name}: no data set of that name in or for {folder}{suggest(name, known)}")
    return name, load(name, root)


def train_plan(runs: Sequence[Run], dataset: PackedDataset) -> list[str]:
    """Lines that describe the data, each model with its width and parameters, and the training."""
    for run in runs:
        check_run(run, dataset)
    sizes = " / ".join(f"{size:,}" for size in _fold_sizes(dataset, runs[0].fold))
    unit = {"graph": "graphs", "node": "nodes", "link": "pairs"}[dataset.level]
    task = Task.of(dataset, runs[0])
    weighted = ", classes weighted" if task.weights else ""
    first = {run.model: run for run in reversed(runs)}
    models = [_model(first[name], dataset) for name in dict.fromkeys(run.model for run in runs)]
    edges = "" if dataset.edge_weight is None else ", edges weighted"
    what = f"{task.target} by {task.metric}{_positive(task, dataset)}{weighted}{edges}"
    data = f"{runs[0].dataset}: {sizes} {unit} for training, validation and test, {what}."
    return [f"{data} {dataset.note}".strip(), *models, _training(runs)]


def _positive(task: Task, dataset: PackedDataset) -> str:
    """The value that a score of one of two values is of; AUROC and accuracy are the same for both."""
    if task.target != "binary" or task.metric in ("auroc", "accuracy") or dataset.preprocessing is None:
        return ""
    names = Preprocessing.from_dict(dataset.preprocessing).classes
    return f" of {names[1]!r}" if len(names) == 2 else ""


def _fold_sizes(dataset: PackedDataset, fold: int) -> list[int]:
    """Graphs or nodes for training, validation and test."""
    if dataset.level != "node":
        return [dataset.subset(name).numel() for name in ("train", "val", "test")]
    masks = (dataset.train_mask, dataset.val_mask, dataset.test_mask)
    return [0 if mask is None else int(mask[:, fold : fold + 1].sum()) for mask in masks]


def _model(run: Run, dataset: PackedDataset) -> str:
    split = f" by {run.split}" if CONVOLUTIONS[run.model].relational else ""
    pe = f"pe {run.pe}{f' {run.pe_encoder}' if run.pe_encoder else ''}"
    more: dict[str, Any] = {"residual": run.residual, f"jk {run.jk}": run.jk, pe: run.pe, f"{run.norm} norm": run.norm}
    more |= {f"remedy {run.remedy}": run.remedy, "feed-forward": run.ffn, run.activation: run.activation != "relu"}
    more[f"{run.head_layers} layers in the head"] = run.head_layers > 1
    if CONVOLUTIONS[run.model].relational:
        more[f"{run.split_layers} layers split"] = run.split_layers != "all"
        start = "independent start" if run.start == "independent" else f"shared start, decay {run.decay:g}"
        more[start] = True
        more["learned split"] = run.learned_split
        more["diagonal deviations"] = run.deviation == "diagonal"
    words = "".join(f", {word}" for word, on in {**more, f"dropout {run.dropout:g}": run.dropout}.items() if on)
    parameters = sum(weight.numel() for weight in build_model(run, dataset).parameters())
    size = f"width {width_of(run, dataset)}, {parameters:,} parameters"
    return f"{run.model}{split}: {counted(run.layers, 'layer')}{words}, {size}."


def _training(runs: Sequence[Run]) -> str:
    run = runs[0]
    rates = ", ".join(f"{rate:g}" for rate in dict.fromkeys(each.lr for each in runs))
    seeds = list(dict.fromkeys(each.seed for each in runs))
    clip = f"gradients clipped at {run.clip:g}" if run.clip else "gradients not clipped"
    decay = f", weight decay {run.weight_decay:g}" if run.weight_decay else ""
    warmup = f" after {counted(run.warmup, 'epoch')} of warm-up" if run.warmup else ""
    if run.epochs <= run.warmup:
        warmup += ", which it does not leave (`--warmup 0` for a short trial)"
    rate = f"learning rate {rates}, {run.schedule}{warmup}"
    many = f"seed {seeds[0]}" if len(seeds) == 1 else counted(seeds, "seed")
    batches = "the whole graph" if run.batch_size is None else f"batches of {run.batch_size}"
    stop = "" if run.patience is None else f", at most, {run.patience} without a better validation score"
    length = f"{counted(run.epochs, 'epoch')} of {batches}{stop}"
    return f"{length}, {run.optimizer}, {rate}{decay}, {clip}, {run.precision}, {many}: {counted(runs, 'run')}."


_NUMBERS = re.compile(r"([0-9]{1,18})(?:\.\.([0-9]{1,18}))?")
# More would take years, and all are created in memory before the first one starts.
_MOST_RUNS = 100_000
# Fields that may be None.
_MAY_BE_NONE = {each.name for each in fields(Run) if "None" in str(each.type)}
# Options with several values, and the fields of `Run` that they set.
_SEVERAL = ("model", "lr", "seeds", "folds", "seed", "fold")


def train_runs(options: Mapping[str, Any], dataset: PackedDataset) -> list[Run]:
    """One run for each model, learning rate, fold and seed, in this order.

    Args:
        options: Values by field of `Run`, None for defaults; ``model``, ``lr``, ``folds`` and ``seeds`` are
            comma-separated strings. Other names are ignored.
        dataset: Its level determines the default protocol.

    Raises:
        ValueError: A model is unknown, or a number is malformed.

    >>> from graphprism.datasets import molecules
    >>> options = {"model": "gcn", "lr": "1e-3,1e-4", "seeds": "0..1", "folds": "0", "layers": 4}
    >>> [run.title for run in train_runs(options, molecules(12))][1:3]
    ['gcn, 4 layers, lr 0.001, seed 1, molecules', 'gcn, 4 layers, lr 0.0001, seed 0, molecules']
    """
    known = {each.name for each in fields(Run)} - {*_SEVERAL}
    given = {name: value for name, value in options.items() if name in known and value is not None}
    given |= {name: None for name, value in given.items() if value == NONE and name in _MAY_BE_NONE}
    name = given.get("dataset", "molecules")
    defaults = dict(protocol(name, dataset.level, dataset.directed, dataset.has_scaled_features))
    if given.get("ffn") or given.get("activation", "relu") != "relu":
        defaults.pop("normalize", None)  # of directed graphs; the layers that were asked for cannot have it
    if "budget" in given and "width" not in given:
        defaults.pop("width", None)  # of nodes and links; the budget finds one
    if given.get("remedy") is not None and dataset.level == "node":
        defaults["encode"] = True  # its layers have one width
    shared = {**defaults, **given}
    if "split" in shared:  # one spelling, so that a run is found again
        shared["split"] = canonical_split(shared["split"])
    default_lr = shared.pop("lr", Run.lr)
    asked, names = options.get("lr"), options.get("model") or _default_models(dataset)
    models = [_known_model(name) for name in _parts("model", names)]
    rates = [default_lr] if asked is None else [_rate(text) for text in _parts("lr", asked)]
    folds, seeds = parse_numbers("folds", options["folds"]), parse_numbers("seeds", options["seeds"])
    count = len(models) * len(rates) * len(folds) * len(seeds)
    if count > _MOST_RUNS:
        raise ValueError(f"models, rates, folds and seeds must make at most {_MOST_RUNS:,} runs, got {count:,}")
    learned = bool(shared.pop("learned_split", False))
    return [
        Run(**shared, model=model, lr=lr, fold=fold, seed=seed, learned_split=learned and _has_relations(model))
        for model, lr, fold, seed in product(models, rates, folds, seeds)
    ]


def unread_options(options: Mapping[str, Any], runs: Sequence[Run], dataset: PackedDataset) -> list[str]:
    """A line about options that differ from their default and that none of the runs reads, if there are any."""
    defaults = protocol(runs[0].dataset, dataset.level, dataset.directed, dataset.has_scaled_features)
    split = [run for run in runs if _has_relations(run.model)]
    has_edges = dataset.level == "graph" and bool(dataset.edge_types)
    with_edges = {run.model for run in runs if has_edges and CONVOLUTIONS[run.model].takes_edge_attr}
    updates_edges = any(CONVOLUTIONS[model].updates_edges for model in with_edges)
    reasons = {
        "no mrs- model": (("split", "start", "learned_split", "split_layers"), bool(split)),
        "no shared start": (("decay", "deviation"), any(run.start == "shared" for run in split)),
        "no dir- model": (("alpha",), any("dir-" in run.model for run in runs)),
        "no model with edge features": (("edge_walks",), bool(with_edges)),
        "no model with edge states": (("edge_dropout",), updates_edges),
        "--dropout is 0": (("edge_dropout",), runs[0].dropout > 0 or not updates_edges),
        "--head-layers is 1": (("head", "head_activation"), runs[0].head_layers > 1),
        "--width is given": (("budget",), runs[0].width is None),
    }
    unread = [
        f"--{name.replace('_', '-')} ({reason})"
        for reason, (names, is_read) in reasons.items()
        for name in names
        if not is_read and options.get(name) not in (None, defaults.get(name, getattr(Run, name)))
    ]
    lines = [f"Not used: {', '.join(unread)}."] if unread else []
    takes = dict.fromkeys(run.model for run in runs if CONVOLUTIONS[run.model].takes_edge_attr)
    if takes and dataset.level != "graph" and dataset.edge_types:
        way = '--split "attr(edge_attr)" with an mrs- model makes relations of them'
        lines.append(f"Not used: types of edges by {', '.join(takes)} (their layers take them on graphs alone); {way}.")
    return lines


def _has_relations(model: str) -> bool:
    return CONVOLUTIONS[model].relational


def _default_models(dataset: PackedDataset) -> str:
    plain = plain_model(dataset.level, dataset.directed)
    return f"{plain},{CONVOLUTIONS[plain].partner}"


def parse_numbers(name: str, text: str) -> list[int]:
    """Parses comma-separated numbers and inclusive ranges.

    >>> parse_numbers("seeds", "0..2,7")
    [0, 1, 2, 7]
    """
    seeds: list[int] = []
    for part in _parts(name, text):
        found = _NUMBERS.fullmatch(part)
        if found is None or int(found[2] or found[1]) < int(found[1]):
            raise ValueError(f"`{name}` must be numbers or ranges such as 0, 0..8 or 0,1,5, got {text[:60]!r}")
        part_of = range(int(found[1]), int(found[2] or found[1]) + 1)
        if len(seeds) + len(part_of) > _MOST_RUNS:
            raise ValueError(f"`{name}` must be at most {_MOST_RUNS:,} numbers, got {text[:60]!r}")
        seeds += part_of
    return list(dict.fromkeys(seeds))


def _known_model(name: str) -> str:
    known = ", ".join(CONVOLUTIONS)
    if name in BASELINES:
        how = "`graphprism reproduce directed` or `train(Run(...))` of Python runs it"
        raise ValueError(f"`model` must be one of {known}, got {name!r}, a whole network: {how}")
    if name not in CONVOLUTIONS:
        way = "one of your own is known after `graphprism --import FILE.py`"
        raise ValueError(f"`model` must be one of {known}, got {name!r}{suggest(name, CONVOLUTIONS)} ({way})")
    return name


def _rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"`lr` must be comma-separated numbers, got {text!r}") from None


def _parts(name: str, text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise ValueError(f"`{name}` must be one or several values, comma-separated, got {text!r}")
    return list(dict.fromkeys(parts))


# Set by torchrun, SLURM and Lightning; all are 0 or unset on rank 0.
_RANKS = ("RANK", "SLURM_PROCID", "NODE_RANK", "LOCAL_RANK")


@dataclass(frozen=True)
class Placement:
    """Devices and engine of runs.

    Attributes:
        accelerator: One of `ACCELERATORS`.
        devices: Devices of a machine that share a run.
        nodes: Machines that share a run.
        engine: ``"eager"`` where lockstep is not possible, else the requested engine.
    """

    accelerator: str
    devices: int
    nodes: int
    engine: str

    @property
    def processes(self) -> int:
        """Number of processes per run."""
        return self.devices * self.nodes

    @property
    def is_rank0(self) -> bool:
        """Whether this is rank 0, which prints and writes."""
        return self.processes == 1 or all(int(os.environ.get(name) or 0) == 0 for name in _RANKS)


def placement_of(options: Mapping[str, Any]) -> Placement:
    """Reads ``accelerator``, ``devices``, ``nodes`` and ``engine``.

    Raises:
        ValueError: A device is not available, or the choices exclude each other.
    """
    accelerator, engine, devices, nodes = (options[name] for name in ("accelerator", "engine", "devices", "nodes"))
    accelerator = "cuda" if accelerator == "gpu" else accelerator
    for name, value, allowed in (("accelerator", accelerator, ACCELERATORS), ("engine", engine, ENGINES)):
        if value not in allowed:
            raise ValueError(f"`{name}` must be one of {', '.join(allowed)}, got {value!r}{suggest(value, allowed)}")
    _check_devices(accelerator, devices)
    alone = devices * nodes == 1
    if engine == "lockstep" and (accelerator == "cpu" or not alone):
        raise ValueError("`engine` must be auto or eager unless all runs share one CUDA device, got 'lockstep'")
    on_gpu = accelerator in ("auto", "cuda") and torch.cuda.is_available()
    return Placement(accelerator, devices, nodes, engine if (on_gpu and alone) or engine == "lockstep" else "eager")


def _check_devices(accelerator: str, devices: int) -> None:
    found = torch.cuda.device_count()
    if accelerator == "cuda" and devices > found:
        asked = f"torch finds {found} of that kind, and {devices} {'is' if devices == 1 else 'are'} asked for"
        raise ValueError(f"`accelerator` must be auto or cpu on this machine, got {accelerator!r}: {asked}")


def train_all(
    runs: Sequence[Run],
    dataset: PackedDataset,
    out: Path,
    placement: Placement,
    progress: EpochProgress,
    fresh: bool = False,
    log: EpochLog | None = None,
) -> list[RunResult]:
    """Trains the runs that the ledger lacks, and returns the results of all.

    Args:
        runs: All on ``dataset``.
        dataset: The data set.
        out: Folder of the ledger and the checkpoints.
        placement: Devices and engine.
        progress: Shows epochs, and runs that are in the ledger.
        fresh: Whether to ignore results and checkpoints of earlier calls.
        log: Called with every epoch as well.
    """
    ledger = Ledger(out / "ledger.jsonl", fresh=fresh)
    if fresh and placement.is_rank0:
        forget(out / "checkpoints", runs)
    known = finished_results(runs, {runs[0].dataset: data_identity(dataset)}, ledger)
    for result in known.values():
        progress.say(_found_message(result, ledger))

    def on_epoch(report: EpochReport) -> None:
        progress(report)
        if log is not None:
            log(report)

    if placement.processes > 1:
        return [known.get(run.key) or _train_shared(run, dataset, out, placement, ledger, on_epoch) for run in runs]
    found: dict[str, RunResult] = {}
    listener = Listener(
        lambda result: found.update({result.key: result}),
        on_epoch,
        lambda count: progress.say(f"waiting for {counted(count, 'run')} of other processes"),
    )
    trainer = trainer_for(runs, placement.engine, placement.accelerator)
    if placement.engine != "eager" or trainer.engine == "lockstep":
        for reason in dict.fromkeys(why_not_lockstep(run, dataset) for run in runs):
            if reason and len(runs) > 1:
                progress.say(f"trained one after another: {reason}")
    run_missing(runs, {runs[0].dataset: dataset}, ledger, out, trainer, listener)
    return [found[run.key] for run in runs]


def _train_shared(
    run: Run,
    dataset: PackedDataset,
    out: Path,
    placement: Placement,
    ledger: Ledger,
    on_epoch: Callable[[EpochReport], None],
) -> RunResult:
    """Trains one run on several devices. Without a claim: all processes must take part."""
    devices: dict[str, Any] = {
        "accelerator": placement.accelerator,
        "devices": placement.devices,
        "nodes": placement.nodes,
    }
    try:
        result = train(run, dataset, folder=out / "checkpoints", on_epoch=on_epoch, **devices)
    except Diverged as error:
        result = error.result
    if placement.is_rank0:
        ledger.append(result)
    return result


def _found_message(result: RunResult, ledger: Ledger) -> str:
    return f"{Run.from_dict(result.run).title}: {result.status} before, read from {ledger.path}; --fresh runs it again"


def run_training(options: Mapping[str, Any]) -> None:
    """Prints the plan, trains and prints the results; exit code 130 if it was interrupted, 1 if a run diverged.

    Raises:
        ValueError: An option is invalid.
        OSError: The data set is missing, or the results cannot be written.
        KeyboardInterrupt: It was interrupted during the first epoch.
    """
    placement, out = placement_of(options), Path(options["out"])
    progress = EpochProgress(quiet=not placement.is_rank0)
    try:
        name, dataset = train_data(options["dataset"], options["data"])
        runs = train_runs({**options, "dataset": name}, dataset)
        plan = train_plan(runs, dataset)
        progress.metric = Task.of(dataset, runs[0]).metric
        _check_writable(out)
        log = EpochLog(options["log"], out / "logs") if options.get("log") else None
        if placement.is_rank0:
            typer.echo("\n".join([*plan, *unread_options(options, runs, dataset), *silent_nodes(runs, dataset)]))
            if options.get("save"):
                write_run_file(options["save"], runs)
                typer.echo(f"The settings are in {options['save']}.")
        with progress:
            results = train_all(runs, dataset, out, placement, progress, options["fresh"], log)
        if log is not None:
            log.close()
    except KeyboardInterrupt:
        if progress.last is None:
            raise
        progress.say(f"{progress.last.run.title}: stopped after epoch {progress.last.epoch}; the same command resumes")
        raise typer.Exit(130) from None
    if placement.is_rank0:
        _print(results, out)


def _print(results: Sequence[RunResult], out: Path) -> None:
    Console().print(train_table(results))
    for sentence in compare_partners(results):
        typer.echo(sentence)
    typer.echo(f"The results are in {out / 'ledger.jsonl'}.")
    diverged = [Run.from_dict(result.run) for result in results if result.status == "diverged"]
    for run in diverged:
        advice = f"try a smaller learning rate than {run.lr:g}"
        typer.echo(f"error: {run.title}: diverged, its loss was not a finite number; {advice}", err=True)
    if diverged:
        raise typer.Exit(1)


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        problem = f"{folder}: no results can be written there ({error.strerror}); name another folder with --out"
        raise OSError(problem) from error
