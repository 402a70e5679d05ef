"""The experiments of ``graphprism reproduce`` as data, so that help and completion do not import torch.

`graphprism.experiments` holds them as `TABLES` and `ALL_TABLES`; a test compares names, help and options of the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from graphprism.experiments.experiment import Job


class ListedOption(NamedTuple):
    """See `graphprism.experiments.Option`."""

    name: str
    kind: Any
    default: Any
    help: str


@dataclass(frozen=True)
class ListedExperiment:
    """An `Experiment` that is imported lazily, by `prepare`."""

    name: str
    help: str
    options: tuple[ListedOption, ...] = ()

    def prepare(self, options: Mapping[str, Any], data: Path | None, out: Path, dry_run: bool = False) -> Job:
        """See `graphprism.experiments.Experiment.prepare`."""
        from graphprism.experiments import ALL_TABLES, TABLES

        (found,) = (each for each in (*TABLES, ALL_TABLES) if each.name == self.name)
        return found.prepare(options, data, out, dry_run)


def _trained(name: str, title: str, seeds: int = 3) -> ListedExperiment:
    return ListedExperiment(
        name,
        f"{title}; finished runs are read from the ledger, interrupted ones are resumed.",
        (
            ListedOption("rows", str | None, None, "Rows to run, comma-separated; default: all."),
            ListedOption("columns", str | None, None, "Columns to run, comma-separated; default: all."),
            ListedOption("seeds", int, seeds, "Runs of each configuration."),
            ListedOption("grid", str, "best", "best: published hyper-parameters; full: the whole published grid."),
            ListedOption("epochs", int | None, None, "Replaces the published number, for quick trials."),
            ListedOption("engine", str, "auto", "eager, lockstep (many runs at once on a GPU) or auto."),
            ListedOption("seconds", float | None, None, "Stop training after this time; the same command resumes."),
        ),
    )


LISTED: tuple[ListedExperiment, ...] = (
    ListedExperiment(
        "figure-2",
        "Follow the rank-one distance through 128 layers with fresh random weights, with and without a split.",
        (
            ListedOption("models", str, "gcn,mrs-gcn,sage,mrs-sage", "Names, comma-separated."),
            ListedOption("graphs", str | None, None, "zinc, molecules or cora; zinc if its file is there."),
            ListedOption("seeds", int | None, None, "Number of seeds: 50; 10 on cora."),
            ListedOption("layers", int, 128, "Number of iterations."),
            ListedOption("channels", int, 16, "Width of the states."),
            ListedOption("chosen_by", str, "l2", "Norm of the distance's row and column: l2, or the authors' l1."),
        ),
    ),
    ListedExperiment("parameters", "Count the parameters of all models at eight layers."),
    ListedExperiment(
        "runtime",
        "Time the five steps of a layer on a batch of 32 molecules.",
        (ListedOption("repeats", int, 100, "Number of timings of each step."),),
    ),
    ListedExperiment(
        "memory",
        "Measure the memory of training, each run in a process of its own.",
        (ListedOption("seeds", int, 3, "Runs of each model."),),
    ),
    _trained("orderings", "Orderings on ZINC12k, at most 500,000 parameters"),
    _trained("orderings-64", "Orderings on ZINC12k, width 64"),
    _trained("zinc", "Five convolutions and their MRS forms on full ZINC"),
    _trained("depth", "Test error on ZINC12k by number of layers"),
    _trained("peptides", "Peptides-func and Peptides-struct"),
    _trained("training-loss", "Training loss on full ZINC"),
    _trained("directed", "Node classification on directed graphs", seeds=10),
    _trained("faber", "Ingredients of FaberNet on top of MRS-Dir-GCN", seeds=10),
    _trained("homophilic", "Node classification on homophilic graphs", seeds=10),
    _trained("strong", "Splits on top of the strongest plain networks", seeds=4),
    _trained("strong-variants", "Where a split pays on a strong base: ZINC12k", seeds=4),
    ListedExperiment(
        "remedies",
        "Remedies against collapse under one recipe: score, rank and gradient by number of layers.",
        (
            ListedOption("dataset", str, "zinc12k", "A data set by name, such as zinc12k or cora."),
            *_trained("remedies", "").options,
        ),
    ),
    ListedExperiment(
        "all",
        "Train what the tables of trained networks lack, the shortest cells first; a later call goes on.",
        (
            ListedOption("tables", str | None, None, "Names of tables, comma-separated; default: all."),
            ListedOption("stored", Path | None, None, "Folder of ledgers *.jsonl whose runs are not trained again."),
            ListedOption("engine", str, "auto", "eager, lockstep (many runs at once on a GPU) or auto."),
            ListedOption("seconds", float | None, None, "Stop training after this time; the same command resumes."),
        ),
    ),
)
