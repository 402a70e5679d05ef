"""Figure 2: from its specification to the distances."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from graphprism.experiments.figure_2_result import Figure2Result
from graphprism.experiments.graphs_by_seed import graphs_by_seed
from graphprism.experiments.rank_one_curve import rank_one_curve
from graphprism.experiments.specs import Figure2Spec
from graphprism.nn.models import CONVOLUTIONS
from graphprism.training.versions import versions


def run_figure_2(
    spec: Figure2Spec, data: Path | None = None, on_run: Callable[[str, int], None] = lambda model, seed: None
) -> Figure2Result:
    """Rank-one distance after every iteration, for every model and seed. The same specification gives the same bits.

    All models of one seed see the same graph and the same first linear map.

    Args:
        spec: The settings.
        data: Folder with ``zinc12k.npz`` or ``cora.npz``; molecules need none.
        on_run: Called with the model and the seed when a run is done.
    """
    unknown = [model for model in spec.models if model not in CONVOLUTIONS]
    if unknown:
        raise ValueError(f"`models` must be among {sorted(CONVOLUTIONS)}, got {unknown}")
    graphs, numbers = graphs_by_seed(spec.graphs, spec.seeds, data)
    curves: dict[str, list[Tensor]] = {model: [] for model in spec.models}
    with one_thread():
        for seed, graph in enumerate(graphs):
            for model in spec.models:
                curves[model].append(rank_one_curve(model, graph, seed, spec))
                on_run(model, seed)
    distances = {model: torch.stack(rows) for model, rows in curves.items()}
    return Figure2Result(spec, distances, tuple(numbers), versions())


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread of torch: twenty nodes only wait for a second one, and sums keep their order on every machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
