"""Data sets from graphs in memory: PyG's `Data`, a list of them, or one of PyG's data sets."""

from __future__ import annotations

import ast
import inspect
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_geometric.datasets
from torch import Tensor
from torch_geometric.data import Batch, Data, Dataset

from graphprism._checks import (
    check_choice,
    check_flag,
    check_homogeneous,
    check_integer,
    check_positive,
    check_shape,
    check_tensor,
    check_type,
    check_whole,
)
from graphprism._text import counted
from graphprism.datasets.folds import SHARES, draw_folds, strata_of
from graphprism.datasets.links import divide_links
from graphprism.datasets.packed_dataset import MASKS, PackedDataset, as_weight
from graphprism.datasets.packed_file import check_undirected
from graphprism.datasets.preprocessing import Preprocessing
from graphprism.datasets.targets import METRIC_OF, EncodedTarget, encode_target, standardised

TASK_NAMES = (*METRIC_OF, "link")


def from_data(
    data: Data | Iterable[Data],
    task: str | None = None,
    *,
    name: str = "data",
    metric: str | None = None,
    directed: bool | None = None,
    shares: Sequence[float] = SHARES,
    folds: int = 1,
    seed: int = 0,
    scale_target: bool = False,
) -> PackedDataset:
    """Makes a data set from PyG graphs: one graph with node targets, graphs with one target each, or links of a graph.

    Folds are those of ``train_mask``, ``val_mask`` and ``test_mask`` where the graph has all three, else drawn with a
    seed and stratified; a warning says which masks are left out, and of nodes that are in two of them. At graph level,
    integers in ``x`` and ``edge_attr`` are types. A target that is NaN is missing: a node without a target is in no
    fold, a graph without one is left out, with a warning. Of several targets those that are missing count neither in
    the loss nor in scores. Of attributes of edges ``edge_attr`` and ``edge_weight`` are read. Weights come as they are
    measured, not normalised: the models of a run do that on top of them.

    Args:
        data: One graph whose ``y`` has a row for every node; or several with one row each, also a data set of PyG.
        task: ``"regression"``, ``"binary"``, ``"multiclass"``, ``"multilabel"`` or ``"link"``; inferred from ``y`` by
            default.
        name: Name of the data set.
        metric: A name of `graphprism.training.METRICS`; by default the usual one of the task.
        directed: Whether edges are directed; by default, whether an edge lacks its reverse edge.
        shares: Shares of training, validation and test for drawn folds.
        folds: Number of folds of nodes to draw, each with the next seed.
        seed: Seed of the folds.
        scale_target: Whether to standardise a numeric target for training, by the mean and deviation of the training
            fold, or of all folds where there are several; each of several targets by its own. Scores are then in
            deviations; `Predictor.predict` returns numbers in the unit of the target.

    Raises:
        ValueError: The targets do not fit the task.

    >>> graph = Data(x=torch.rand(30, 4), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.arange(30) % 3)
    >>> from_data(graph)
    PackedDataset('data', 1 graph, node multiclass by accuracy)
    """
    check_choice("task", task, (None, *TASK_NAMES))
    check_positive("folds", folds)
    check_whole("seed", seed)
    check_flag("scale_target", scale_target)
    check_homogeneous("data", data)
    graphs = [data] if isinstance(data, Data) else list(data)
    for graph in graphs:
        check_homogeneous("data", graph)
        check_type("data", graph, Data, "a Data of PyG or several of them")
    if not graphs:
        raise ValueError("`data` must be at least one graph, got none")
    check_graphs(graphs)
    _warn_of_unread(graphs)
    per_node = all(map(_has_row_per_node, graphs))
    if len(graphs) == 1 and not per_node and task != "link" and isinstance(data, Data | Dataset):
        raise _not_per_node(graphs[0])
    if len(graphs) == 1 and (per_node or task == "link"):
        whole = pack_inputs(name, graphs, "link" if task == "link" else "node", directed)
        if task == "link":
            return with_links(whole, metric, shares, seed)
        return _with_node_targets(whole, graphs[0], task, metric, shares, folds, seed, scale_target)
    if per_node and any(graph.num_nodes > 1 for graph in graphs):
        raise ValueError(
            "`y` must have one row for each graph, [T] or [1, T], got a row for every node in all of them: targets of "
            "nodes need one graph, `from_data(Batch.from_data_list(graphs))`, with masks for folds of whole graphs"
        )
    columns = _target_columns([graph.y for graph in graphs])
    target = encode_target(columns, task, "`y`")
    if task is None:
        _warn_of_reading(columns, target, stacklevel=3)
    if not target.known.all():
        lost = f"{int((~target.known).sum()):,} of {counted(graphs, 'graph')} are left out"
        warnings.warn(f"{lost}: `y` is missing there", stacklevel=2)
    whole = pack_inputs(
        name, [graph for graph, known in zip(graphs, target.known, strict=True) if known], "graph", directed
    )
    target = replace(target, y=target.y[target.known], known=target.known[target.known])
    split = draw_folds(strata_of(target.y, target.task), shares, seed)
    if scale_target:
        whole, target = _with_scale(whole, target, split == 0)
    return with_target(whole, target, metric, split=torch.from_numpy(split))


def _with_scale(
    whole: PackedDataset, target: EncodedTarget, train: np.ndarray[Any, Any]
) -> tuple[PackedDataset, EncodedTarget]:
    """Standardises a numeric target, and keeps in the data set how."""
    if target.task != "regression":
        return whole, target
    target, mean, scale = standardised(target, train)
    kept = Preprocessing(whole.level, {}, directed=whole.directed, target_mean=mean, target_scale=scale)
    return replace(whole, preprocessing=kept.to_dict()), target


def _warn_of_unread(graphs: Sequence[Data]) -> None:
    """Says of attributes of edges, which layers of PyG read, that no run will read them."""
    # types of `SplitEdges` are found anew, by the split of a run
    if any("edge_type" in graph for graph in graphs) and not any("split_rule" in graph for graph in graphs):
        way = 'as `edge_attr` the split "attr(edge_attr)" reads it'
        warnings.warn(f"`edge_type` is left out: {way}", stacklevel=3)
    numbers = [each for graph in graphs if (each := graph.get("edge_attr")) is not None and each.is_floating_point()]
    if any(each.numel() for each in numbers):
        one_hot = all(_is_one_hot(each) for each in numbers)
        way = "`edge_attr.argmax(dim=1)` of these one-hot rows" if one_hot else "whole numbers"
        warnings.warn(
            "`edge_attr` is read by no network and no split, as its numbers are floating-point: types are "
            f"{way}, and a weight for each edge is `edge_weight`",
            stacklevel=3,
        )


def _is_one_hot(rows: Tensor) -> bool:
    """Whether each row has a single 1 among zeros."""
    return rows.dim() == 2 and rows.size(1) > 1 and bool(((rows == 0) | (rows == 1)).all() and (rows.sum(1) == 1).all())


def with_target(whole: PackedDataset, target: EncodedTarget, metric: str | None, **folds: Any) -> PackedDataset:
    """The same graphs with targets and folds."""
    classes = len(target.classes) if target.task == "multiclass" else 0
    metric = metric or METRIC_OF[target.task]
    y = torch.from_numpy(target.y)
    return replace(whole, task=target.task, metric=metric, y=y, num_classes=classes, **folds)


def with_links(whole: PackedDataset, metric: str | None, shares: Sequence[float], seed: int) -> PackedDataset:
    """Makes the edges of one graph targets; validation and test edges are removed from the graph."""
    edges = whole.edge_index.numpy()
    links = divide_links(edges, whole.x.size(0), whole.directed, shares, seed)
    kept = torch.from_numpy(links.kept)
    return replace(
        whole,
        level="link",
        task="binary",
        metric=metric or METRIC_OF["binary"],
        edge_index=whole.edge_index[:, kept],
        edge_attr=None if whole.edge_attr is None else whole.edge_attr[kept],
        edge_weight=None if whole.edge_weight is None else whole.edge_weight[kept],
        edge_ptr=torch.tensor([0, int(kept.sum())]),
        pairs=torch.from_numpy(links.pairs),
        y=torch.from_numpy(links.y),
        split=torch.from_numpy(links.split),
    )


def node_masks(folds: np.ndarray[Any, Any]) -> dict[str, Tensor]:
    """Converts folds (N, S), -1 for a node in none, to three masks (N, S)."""
    return {key: torch.from_numpy(folds == fold) for fold, key in enumerate(MASKS)}


def drawn_folds(target: EncodedTarget, shares: Sequence[float], folds: int, seed: int) -> np.ndarray[Any, Any]:
    """Draws folds, (R, S); rows without a target get -1."""
    found = np.full((target.known.size, folds), -1)
    strata = strata_of(target.y[target.known], target.task)
    for column in range(folds):
        found[target.known, column] = draw_folds(strata, shares, seed + column)
    return found


def _with_node_targets(
    whole: PackedDataset,
    graph: Data,
    task: str | None,
    metric: str | None,
    shares: Sequence[float],
    folds: int,
    seed: int,
    scale_target: bool,
) -> PackedDataset:
    columns = list(graph.y.view(graph.num_nodes, -1).detach().cpu().numpy().T)
    target = encode_target(columns, task, "`y`")
    if task is None:
        _warn_of_reading(columns, target, stacklevel=4)
    given = [key for key in MASKS if graph.get(key) is not None]
    if len(given) == len(MASKS):
        masks = _of_one_width({key: graph[key].view(graph.num_nodes, -1).bool() for key in MASKS})
        masks = {key: mask & torch.from_numpy(target.known)[:, None] for key, mask in masks.items()}
        _warn_of_overlap(masks)
    else:
        masks = node_masks(drawn_folds(target, shares, folds, seed))
        if given:
            lost, lacks = (
                " and ".join(f"`{key}`" for key in MASKS if (key in given) is there) for there in (True, False)
            )
            warnings.warn(f"{lost} left out, and folds are drawn, as there is no {lacks}", stacklevel=3)
    if scale_target:
        # with several folds every row is a training row in one of them
        train = masks["train_mask"] if masks["train_mask"].size(1) == 1 else torch.stack([*masks.values()]).any(0)
        whole, target = _with_scale(whole, target, train.all(1).numpy())
    return with_target(whole, target, metric, **masks)


def _warn_of_reading(columns: Sequence[np.ndarray[Any, Any]], target: EncodedTarget, stacklevel: int) -> None:
    """Warns of targets that are often meant otherwise: classes in one-hot rows, and -1 for no class."""
    if target.task == "multilabel" and len(columns) > 1 and bool((np.sum(columns, axis=0) == 1).all()):
        way = '`y.argmax(dim=1)` has classes, `task="multilabel"` says that they are labels'
        warnings.warn(
            f"`y` is read as {len(columns)} labels although each row has a single 1: {way}", stacklevel=stacklevel
        )
    if target.task == "multiclass" and "-1" in target.classes:
        way = 'a missing target is NaN, `task="multiclass"` says that it is a class'
        warnings.warn(f"-1 in `y` is read as one of {len(target.classes)} classes: {way}", stacklevel=stacklevel)


def _of_one_width(masks: dict[str, Tensor]) -> dict[str, Tensor]:
    """Masks of all folds; one that is given once, as PyG's WikiCS has its test nodes, is that of every fold."""
    widths = {key: mask.size(1) for key, mask in masks.items()}
    most = max(widths.values())
    if not set(widths.values()) <= {1, most}:
        came = ", ".join(map(str, widths.values()))
        raise ValueError(f"{', '.join(f'`{key}`' for key in masks)} must have one number of folds, got {came}")
    return {key: mask.expand(-1, most) if mask.size(1) < most else mask for key, mask in masks.items()}


def _warn_of_overlap(masks: dict[str, Tensor]) -> None:
    twice = (sum(mask.long() for mask in masks.values()) > 1).any(1)  # type: ignore[union-attr]
    if bool(twice.any()):
        number = counted(int(twice.sum()), "node")
        warnings.warn(f"{number} in two of `train_mask`, `val_mask` and `test_mask`: scores leak", stacklevel=4)


def _has_row_per_node(graph: Data) -> bool:
    y = graph.get("y")
    return isinstance(y, Tensor) and y.dim() in (1, 2) and y.size(0) == graph.num_nodes


def _not_per_node(graph: Data) -> ValueError:
    y = graph.get("y")
    if isinstance(graph, Batch) and graph.num_graphs > 1 and isinstance(y, Tensor):
        way = "`data.to_data_list()` has them one by one"
        return ValueError(f"`data` must be one graph or several, got a batch of {graph.num_graphs} graphs: {way}")
    came = None if y is None else list(y.shape) if isinstance(y, Tensor) else type(y).__name__
    return ValueError(f"`y` of one graph must have a row for each of its {graph.num_nodes} nodes, got {came}")


def _target_columns(targets: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """One array for each target of the graphs."""
    rows: list[Tensor] = []
    for number, y in enumerate(targets):
        if not isinstance(y, Tensor):
            y = torch.tensor([y]) if isinstance(y, int | float) else y
        check_type(f"y of graph {number}", y, Tensor, "a tensor or a number")
        one = y.reshape(1, -1)
        if rows and one.size(1) != rows[0].size(1):
            must = f"`y` must have {rows[0].size(1)} targets in every graph"
            raise ValueError(f"{must}, got {one.size(1)} in graph {number}")
        rows.append(one)
    return list(torch.cat(rows).detach().cpu().numpy().T)


def check_graphs(graphs: Sequence[Data]) -> None:
    """Raises with the number of the graph where edges or features do not fit: `torch.cat` would not name it."""
    for number, graph in enumerate(graphs):
        name = _named("edge_index", number, graphs)
        check_tensor(name, graph.edge_index)
        check_shape(name, graph.edge_index, [2, "E"])
        check_integer(name, graph.edge_index)
    for name in ("x", "edge_attr", "edge_weight"):
        missing = [number for number, graph in enumerate(graphs) if graph.get(name) is None]
        if 0 < len(missing) < len(graphs):
            raise ValueError(f"`{name}` must be in all graphs or in none, got none in graph {missing[0]}")
    sizes = torch.tensor([graph.num_nodes for graph in graphs])
    edges = torch.tensor([graph.num_edges for graph in graphs])
    ends = torch.cat([graph.edge_index.cpu().long() for graph in graphs], 1)
    # at once, not by graph: sets have 10^5 graphs of 20 nodes
    outside = ((ends < 0) | (ends >= sizes.repeat_interleave(edges))).nonzero()
    if outside.numel():
        row, column = outside[0].tolist()
        number = int(torch.searchsorted(edges.cumsum(0), column, right=True))
        name = _named("edge_index", number, graphs)
        must, came = f"numbers of nodes in [0, {int(sizes[number])})", int(ends[row, column])
        raise ValueError(f"`{name}` must hold {must}, got {came}")
    for name, counts in (("x", sizes), ("edge_attr", edges), ("edge_weight", edges)):
        if graphs[0].get(name) is not None:
            _check_features(name, [graph.get(name) for graph in graphs], counts.tolist())
    for number, graph in enumerate(graphs):
        weight = graph.get("edge_weight")
        if weight is not None and weight.numel() != graph.num_edges:
            name = _named("edge_weight", number, graphs)
            raise ValueError(f"`{name}` must have one number for each edge, got shape {list(weight.shape)}")


def _named(name: str, number: int, graphs: Sequence[Any]) -> str:
    """The name of an attribute of a graph, for errors."""
    return name if len(graphs) == 1 else f"{name} of graph {number}"


def _check_features(name: str, parts: Sequence[Any], counts: Sequence[int]) -> None:
    first: tuple[int, Tensor] | None = None
    for number, (part, count) in enumerate(zip(parts, counts, strict=True)):
        own = _named(name, number, parts)
        check_tensor(own, part)
        if count == 0:
            continue
        if part.dim() == 0 or part.size(0) != count:
            raise ValueError(f"`{own}` must have {count} rows, got shape {list(part.shape)}")
        rows = part.reshape(count, -1)
        if part.is_floating_point() and not bool(part.isfinite().all()):
            row, column = (~rows.isfinite()).nonzero()[0].tolist()
            raise ValueError(f"`{own}` must hold finite numbers, got NaN or infinity in row {row}, column {column}")
        first = first or (number, rows)
        if rows.size(1) != first[1].size(1):
            columns = f"{first[1].size(1)} columns as in graph {first[0]}"
            raise ValueError(f"`{name}` must have {columns}, got {rows.size(1)} in graph {number}")
        if rows.is_floating_point() != first[1].is_floating_point():
            kind = f"{first[1].dtype} as in graph {first[0]}"
            raise ValueError(f"`{name}` must be {kind}, got {rows.dtype} in graph {number}")


def pack_inputs(name: str, graphs: Sequence[Data], level: str, directed: bool | None) -> PackedDataset:
    """Concatenates graphs that `check_graphs` accepts, without targets."""
    sizes = torch.tensor([graph.num_nodes for graph in graphs])
    edges = torch.tensor([graph.num_edges for graph in graphs])
    edge_index = torch.cat([graph.edge_index.cpu().long() for graph in graphs], 1)
    x, node_types = join_inputs([graph.get("x") for graph in graphs], sizes, level)
    edge_attr, edge_types = join_inputs([graph.get("edge_attr") for graph in graphs], edges, "graph")
    if directed is None:
        directed = not _is_symmetric(edge_index, sizes, edges)
    if x is None:
        x = torch.ones(int(sizes.sum()), 1)
    return PackedDataset(
        name=name,
        level=level,
        task="regression",
        metric="mae",
        x=x,
        edge_index=edge_index,
        edge_attr=edge_attr,
        y=torch.zeros(0, 1),
        node_ptr=torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]),
        edge_ptr=torch.cat([edges.new_zeros(1), edges.cumsum(0)]),
        node_types=node_types if level == "graph" else (),
        edge_types=edge_types,
        directed=directed,
        edge_weight=join_weights(graphs),
    )


def join_weights(graphs: Sequence[Data]) -> Tensor | None:
    """Weights of the edges of all graphs, (ΣE,), of graphs that `check_graphs` accepts; None where there are none."""
    parts = [graph.get("edge_weight") for graph in graphs]
    if any(part is None for part in parts):
        return None
    return as_weight(torch.cat([part.detach().cpu().reshape(-1) for part in parts]))


def join_inputs(parts: Sequence[Any], sizes: Tensor, level: str) -> tuple[Tensor | None, tuple[int, ...]]:
    """Features or types of all graphs in one tensor, and the number of types of each column."""
    if any(part is None for part in parts):
        return None, ()
    # PyG stores a single type per row as a vector
    whole = torch.cat([_rows(part.detach().cpu(), int(size)) for part, size in zip(parts, sizes, strict=True)])
    if whole.is_floating_point() or whole.dtype == torch.bool or level != "graph":
        return whole.float() if whole.dtype != torch.float64 else whole, ()
    if whole.numel() == 0 or int(whole.min()) < 0 or int(whole.max()) >= 1000:
        return whole.float(), ()
    return whole, tuple(int(top) + 1 for top in whole.amax(0))


def _rows(part: Tensor, count: int) -> Tensor:
    """One row per node or edge; there may be zero rows."""
    return part.reshape(count, -1) if count else part.reshape(0, part.size(1) if part.dim() == 2 else 1)


def _is_symmetric(edge_index: Tensor, nodes: Tensor, edges: Tensor) -> bool:
    try:
        check_undirected(edge_index.numpy(), nodes.numpy(), edges.numpy())
    except ValueError:
        return False
    return True


PYG_PREFIX = "pyg:"
_DOTTED = re.compile(r"[^\W\d]\w*(\.\w+)*")


def from_pyg_class(text: str, folder: Path, **options: Any) -> PackedDataset:
    """Makes a data set from a class of `torch_geometric.datasets`, such as ``pyg:TUDataset(NCI1)``.

    The arguments are literals, which are parsed and never executed; quotes around words are optional. PyG downloads
    missing files to ``folder / "pyg"`` and reads them itself.

    Args:
        text: The class with its arguments, after ``pyg:``.
        folder: Folder of data sets.
        options: Arguments of `from_data`.

    Raises:
        ValueError: It is no such call, or there is no such class.
        OSError: PyG could not load it.
    """
    name, words, keywords = parse_call(text.removeprefix(PYG_PREFIX))
    short = name.removeprefix("torch_geometric.datasets.")
    known = getattr(torch_geometric.datasets, short, None) if short.isidentifier() else None
    if not (isinstance(known, type) and issubclass(known, Dataset)):
        raise ValueError(f"{PYG_PREFIX}{name} must name a class of torch_geometric.datasets, got {name!r}")
    arguments = inspect.signature(known).parameters
    if "root" in arguments:  # sets that PyG generates, or has in its code, have none
        keywords.setdefault("root", str(folder / "pyg" / short))
    keywords |= dict(zip([word for word in arguments if word != "root"], words, strict=False))
    try:
        loaded = known(**keywords)
    except TypeError as error:
        raise ValueError(f"{PYG_PREFIX}{text.removeprefix(PYG_PREFIX)}: the arguments do not fit ({error})") from error
    except (OSError, RuntimeError, KeyError, ImportError) as error:
        advice = f"; put its raw files into {keywords['root']}" if "root" in keywords else ""
        raise OSError(f"{text}: PyG could not load it ({error}){advice}") from error
    title = "-".join([short, *(str(word) for word in words)]).lower()
    return from_data(loaded, **{"name": title, **options})


def parse_call(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Parses a call with literal arguments; a bare word is a string.

    >>> parse_call("Planetoid(Cora, split='public')")
    ('Planetoid', ['Cora'], {'split': 'public'})
    """
    must = "must be a class with plain arguments, such as pyg:TUDataset(NCI1)"
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{must}, got {text[:60]!r}") from None
    name = ast.unparse(tree.func if isinstance(tree, ast.Call) else tree)
    if _DOTTED.fullmatch(name) and not isinstance(tree, ast.Call):
        return name, [], {}
    if not _DOTTED.fullmatch(name) or not isinstance(tree, ast.Call):
        raise ValueError(f"{must}, got {text[:60]!r}")
    try:
        words = [_literal(each) for each in tree.args]
        keywords = {str(each.arg): _literal(each.value) for each in tree.keywords if each.arg is not None}
    except ValueError:
        raise ValueError(f"{must}, got {text[:60]!r}") from None
    return name, words, keywords


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id not in ("True", "False", "None"):
        return node.id
    return ast.literal_eval(node)
