"""Figure 2: computes the rank-one distances of its specification."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphprism._checks import check_range
from graphprism._files import write_whole
from graphprism.analysis import FileGraph, read_graph
from graphprism.analysis.collapse import rank_one_distance
from graphprism.experiments.experiment import Measured, Option, save_png_and_svg
from graphprism.experiments.find_graph import dataset_file
from graphprism.experiments.table import write_table
from graphprism.experiments.tables.figure_2_result import FIGURE_2, Figure2Result, Figure2Spec, plot_figure_2
from graphprism.known import named_folder
from graphprism.nn.models import CONVOLUTIONS
from graphprism.ops import RelationalAdj
from graphprism.splitting import Graph, resolve_split
from graphprism.testing import molecules
from graphprism.training.provenance import versions

# Fewer seeds on Cora: its component is as large as a hundred molecules, and all seeds share it.
_CORA_SEEDS = 10


def figure_2_spec(
    models: Sequence[str],
    graphs: str | None,
    seeds: int | None,
    layers: int,
    channels: int,
    data: Path | None = None,
    chosen_by: str = FIGURE_2.chosen_by,
) -> Figure2Spec:
    """The paper's settings with these changes; by default on ZINC if its file is present, else on molecules."""
    if graphs is None:
        folder = named_folder(data)
        graphs = "zinc" if folder is not None and (folder / "zinc12k.npz").is_file() else "molecules"
    if seeds is None:
        seeds = _CORA_SEEDS if graphs == "cora" else FIGURE_2.seeds
    names = tuple(name.strip() for name in models)
    spec = replace(FIGURE_2, models=names, graphs=graphs, seeds=seeds, layers=layers, channels=channels)
    return replace(spec, chosen_by=chosen_by)


# A state is rescaled once it leaves [2^-500, 2^500]: by a power of two, which is exact, and no nearer to one than
# 2^-100 or 2^100, beyond which a bias dominates or vanishes and attention is uniform or hard: the function is the same.
_LARGEST, _FACTOR = 2.0**500, 2.0**400


@torch.no_grad()
def rank_one_curve(model: str, graph: Graph, seed: int, spec: Figure2Spec) -> Tensor:
    """Rank-one distance after each of ``spec.layers`` iterations, (L,) in float64; NaN where the state is all zeros.

    The global random state is restored.

    >>> from graphprism.testing import molecule
    >>> graph = molecule(0)
    >>> one_hot = torch.nn.functional.one_hot(graph.x.view(-1)).double()
    >>> curve = rank_one_curve("gcn", Graph(graph.edge_index, graph.num_nodes, one_hot), 0, Figure2Spec(layers=64))
    >>> tuple(curve.shape), bool(curve[-1] < curve[0] / 10)
    ((64,), True)
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        states = _states(model, graph, spec)  # (L, N, F)
    layer = torch.arange(spec.layers).repeat_interleave(graph.num_nodes)
    return rank_one_distance(states.flatten(0, 1), layer, chosen_by=spec.chosen_by)


def _states(model: str, graph: Graph, spec: Figure2Spec) -> Tensor:
    assert graph.x is not None  # `graphs_by_seed` sets the features of every graph
    split = resolve_split(spec.split)
    x: Tensor = torch.nn.Linear(graph.x.size(1), spec.channels, dtype=torch.float64)(graph.x)
    # In evaluation mode the batch norms of GatedGCN are the identity; otherwise they would depend on the graph's size.
    conv = _make_conv(model, spec.channels, split.num_relations or 1).double().eval()
    edges = _edges(graph, split(graph), int(conv.num_relations))  # type: ignore[arg-type]  # a number, not a module
    states = x.new_empty(spec.layers, *x.shape)
    for state in states:
        conv.reset_parameters()  # type: ignore[operator]  # weights are not shared between iterations
        x = _in_range(conv(x, edges).relu())
        state.copy_(x)
    return states


def _make_conv(model: str, channels: int, num_relations: int) -> torch.nn.Module:
    init = "glorot" if model == "mrs-sage" else None  # initialisation of the authors' layer
    return CONVOLUTIONS[model].make(
        channels, channels, num_relations=num_relations, weight_init=init, start="independent"
    )


def _edges(graph: Graph, edge_type: Tensor, num_relations: int) -> RelationalAdj:
    """The graph, prepared once for all iterations; a plain convolution has one relation."""
    types = edge_type if num_relations > 1 else None
    return RelationalAdj(graph.edge_index, types, num_relations=num_relations, num_nodes=graph.num_nodes)


def _in_range(x: Tensor) -> Tensor:
    largest = float(x.abs().max())
    if largest > _LARGEST:
        return x / _FACTOR
    return x * _FACTOR if 0 < largest < 1 / _LARGEST else x


# Atom types in ZINC and in generated molecules.
_NUM_TYPES = 28


def graphs_by_seed(source: str, seeds: int, data: Path | None) -> tuple[list[Graph], list[int]]:
    """One graph with float64 features per seed, and its index in the source.

    Node types become one-hot rows; other features are unchanged.
    """
    if source == "cora":
        cora = largest_component(read_graph(dataset_file("cora", data)))
        return [replace(cora, x=_features(cora).double())] * seeds, [0] * seeds
    if source == "zinc":
        file = read_graph(dataset_file("zinc12k", data))
        numbers = [_draw(seed, _count(file)) for seed in range(seeds)]
        return [_one_hot(graph) for graph in single_graphs(file, numbers)], numbers
    return [_one_hot(graph) for graph in molecules(seeds)], list(range(seeds))


def single_graphs(file: FileGraph, numbers: list[int]) -> list[Graph]:
    """The graphs of a batch with these indices, nodes renumbered from 0."""
    batch = torch.zeros(file.num_nodes, dtype=torch.long) if file.batch is None else file.batch
    graph_of_edge = batch[file.edge_index[0]]
    return [_members(file, batch == number, graph_of_edge == number) for number in numbers]


def largest_component(file: FileGraph) -> Graph:
    """The largest connected component (the first one of equal size), ignoring directions, with its features."""
    if file.num_nodes == 0:
        raise ValueError(f"{file.name} must have nodes, got none")
    smallest = torch.arange(file.num_nodes)
    source, target = torch.cat([file.edge_index, file.edge_index.flip(0)], dim=1)
    while True:  # label propagation of the smallest index: as many rounds as the diameter
        seen = smallest.scatter_reduce(0, target, smallest[source], "amin")
        if torch.equal(seen, smallest):
            break
        smallest = seen
    inside = smallest == torch.bincount(smallest).argmax()
    return _members(file, inside, inside[file.edge_index[0]])


def _members(file: FileGraph, nodes: Tensor, edges: Tensor) -> Graph:
    number = nodes.cumsum(0) - 1
    x = None if file.x is None else file.x[nodes]
    return Graph(number[file.edge_index[:, edges]], int(nodes.sum()), x)


def _one_hot(graph: Graph) -> Graph:
    types = _features(graph).flatten().long()
    check_range("x", types, _NUM_TYPES)
    return replace(graph, x=torch.nn.functional.one_hot(types, _NUM_TYPES).double())


def _features(graph: Graph) -> Tensor:
    if graph.x is None or graph.num_nodes == 0:
        raise ValueError("a graph of Figure 2 must have nodes with features `x`, got one without")
    return graph.x


def _count(file: FileGraph) -> int:
    return 1 if file.batch is None else int(file.batch[-1]) + 1


def _draw(seed: int, stop: int) -> int:
    return int(torch.randint(stop, (), generator=torch.Generator().manual_seed(seed)))


def run_figure_2(
    spec: Figure2Spec, data: Path | None = None, on_run: Callable[[str, int], None] = lambda model, seed: None
) -> Figure2Result:
    """Rank-one distance after every iteration, for every model and seed. The same specification gives the same bits.

    All models of one seed see the same graph and the same first linear map.

    Args:
        spec: The settings.
        data: Folder with ``zinc12k.npz`` or ``cora.npz``; not needed for molecules.
        on_run: Called with model and seed after each run.
    """
    _check_models(spec)
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
    """Limits torch to one thread: faster for twenty nodes, and sums have the same order on every machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _check_models(spec: Figure2Spec) -> None:
    # excluded: layers of PyG, which take no prepared graph, and models without a graph
    known = [name for name, conv in CONVOLUTIONS.items() if conv.takes_graph and conv.edge_norm is not None]
    unknown = [model for model in spec.models if model not in known]
    if unknown:
        raise ValueError(f"`models` must be among {sorted(known)}, got {unknown}")


def _spec(data: Path | None, models: str, **options: Any) -> Figure2Spec:
    return figure_2_spec(models.split(","), data=data, **options)


def _measure(data: Path | None, on_step: Callable[[str], None], **options: Any) -> Figure2Result:
    return run_figure_2(_spec(data, **options), data, on_run=lambda model, seed: on_step(f"{model}, seed {seed}"))


def _steps(data: Path | None, **options: Any) -> list[str]:
    spec = _spec(data, **options)
    _check_models(spec)
    return [f"{model}, seed {seed}" for seed in range(spec.seeds) for model in spec.models]


def _write(result: Figure2Result, out: Path) -> list[Path]:
    path = out / "figure-2" / "figure-2.json"
    write_whole(path, result.to_json(), "results")
    return [path, *save_png_and_svg(plot_figure_2(result), out, "figure-2"), write_table(result.table(), out)]


FIGURE_2_CURVES = Measured(
    name="figure-2",
    help="Follow the rank-one distance through 128 layers with fresh random weights, with and without a split.",
    measure=_measure,
    steps=_steps,
    options=(
        Option("models", str, ",".join(FIGURE_2.models), "Names, comma-separated."),
        Option("graphs", str | None, None, "zinc, molecules or cora; zinc if its file is there."),
        Option("seeds", int | None, None, "Number of seeds: 50; 10 on cora."),
        Option("layers", int, FIGURE_2.layers, "Number of iterations."),
        Option("channels", int, FIGURE_2.channels, "Width of the states."),
        Option("chosen_by", str, FIGURE_2.chosen_by, "Norm of the distance's row and column: l2, or the authors' l1."),
    ),
    write=_write,
    show=lambda result: result,
)
