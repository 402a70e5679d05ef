"""The specification of Figure 2 for what a user asks and has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from graphprism.datasets import named_folder
from graphprism.experiments.specs import FIGURE_2, Figure2Spec

# Cora's component has as many nodes as a hundred molecules, and all seeds share it.
_CORA_SEEDS = 10


def figure_2_spec(
    models: Sequence[str],
    graphs: str | None,
    seeds: int | None,
    layers: int,
    channels: int,
    data: Path | None = None,
) -> Figure2Spec:
    """The paper's settings with these in their place; without ``graphs`` ZINC where it is, else molecules."""
    if graphs is None:
        folder = named_folder(data)
        graphs = "zinc" if folder is not None and (folder / "zinc12k.npz").is_file() else "molecules"
    if seeds is None:
        seeds = _CORA_SEEDS if graphs == "cora" else FIGURE_2.seeds
    names = tuple(name.strip() for name in models)
    return replace(FIGURE_2, models=names, graphs=graphs, seeds=seeds, layers=layers, channels=channels)
