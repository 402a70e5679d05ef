"""Contribution of each relation to a model, by shares of messages and by ablation."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import one_hot
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from graphprism._checks import check_function, check_homogeneous, check_integer, check_range, check_shape
from graphprism.analysis.collapse.probe import call_model, check_model, preserved
from graphprism.splitting import check_split
from graphprism.splitting.check_split import split_names
from graphprism.splitting.ranks import ranked


@dataclass(frozen=True)
class RelationExplanation:
    """Result of `explain`; ``str`` of it is a table.

    Attributes:
        names: names of the R relations, then ``"self-loops"`` if there are any: self-loops belong to a relation (ties
            of `by_order`), but carry no message from other nodes, so that they are counted separately.
        num_edges: number of edges of each in the graph; a layer may add self-loops of its own.
        layers: names of the layers with relations, in the order of their calls.
        shares: a row for each layer, with the share of each in the received messages; a row sums to 1 unless
            nothing is received.
        removed: change of the output without the edges of each (of those in the graph); 0 if there are none. The table
            leaves the cells of self-loops empty that layers add themselves.
        merged: change of the output if these edges use the mean over all relations.
        is_score: whether changes are losses of a score; else they are relative to the norm of the output.
        without_shares: names of convolutions without relations, and of those that `to_mrs` left with PyG's code.
    """

    names: tuple[str, ...]
    num_edges: tuple[int, ...]
    layers: tuple[str, ...]
    shares: tuple[tuple[float, ...], ...]
    removed: tuple[float, ...]
    merged: tuple[float, ...]
    is_score: bool
    without_shares: tuple[str, ...] = ()

    def __str__(self) -> str:
        changes = (self.removed, self.merged)
        heads = ["relation", "edges", *self.layers, "removed", "merged"]
        lines = [
            [
                name,
                str(self.num_edges[r]),
                *(f"{100 * share[r]:.0f} %" for share in self.shares),
                # nothing of the graph can be changed about self-loops that only layers add
                *("" if name == "self-loops" and not self.num_edges[r] else f"{change[r]:.3g}" for change in changes),
            ]
            for r, name in enumerate(self.names)
        ]
        widths = [max(map(len, column)) for column in zip(heads, *lines, strict=True)]
        rows = [
            "  ".join(
                [line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))]
            ).rstrip()
            for line in (heads, *lines)
        ]
        what = "loss of score" if self.is_score else "relative change of the output"
        notes = [
            "layer columns: share of the relation in the received messages; self-loops have their own row",
            f"removed: {what} without the edges of the relation",
            "merged: the same with the mean of all relations' messages on these edges",
        ]
        if self.without_shares:
            without = ", ".join(self.without_shares)
            notes.append(f"no column: {without} (plain, or PyG's code with a weight per relation)")
        return "\n".join([*rows, *notes])


def explain(
    model: Module,
    data: Any,
    *,
    score: Callable[[Any], float] | None = None,
    forward: Callable[[Any, Any], Any] | None = None,
    names: Sequence[str] | None = None,
) -> RelationExplanation:
    r"""Share of each relation in every layer, and its ablation, in evaluation mode.

    The share of relation :math:`r` in a layer is :math:`\|\mathbf{M}_r\| / \sum_s \|\mathbf{M}_s\|` with Frobenius
    norms, where row :math:`i` of :math:`\mathbf{M}_r` sums the messages that node :math:`i` receives in :math:`r`
    from other nodes. Self-loops of all relations are a separate row; a layer's root weight is not counted. Ablation
    calls the model twice more per relation: without its edges (and with the degrees of the remaining graph), and with
    the mean of all relations' messages on its edges, which measures the value of its own weights. It reports
    :math:`\|\mathbf{Y} - \mathbf{Y}'\| / \|\mathbf{Y}\|` of the outputs, or the decrease of a score. With a
    `LearnedSplit` edges belong to the relation that ``data`` gives them, whatever their scores; merged edges get equal
    scores.

    Args:
        model: with layers of `graphprism.nn` that have several relations, or converted by `to_mrs`. Layers that keep
            PyG's code have no shares, see ``without_shares``; ablation includes them.
        data: a graph or a batch with ``edge_type`` (E,); without, a converted model splits it as in a call.
        score: a function of the output, larger for a better one, such as an accuracy.
        forward: ``forward(model, data)`` calls the model; by default its arguments are attributes of ``data`` by name.
            Ablation gives it graphs with fewer edges or with other relations: it has to take edges, their attributes
            and ``edge_type`` from its second argument.
        names: names of the relations; by default those of the split (up, down and tie for `by_order`), else numbers.

    Example:
        >>> from torch_geometric.data import Data
        >>> import graphprism as gp
        >>> path = Data(torch.eye(3), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> conv = gp.nn.MRSGCNConv(3, 3, num_relations=3, normalize=False)
        >>> conv.lin.set_(torch.stack([3 * torch.eye(3), torch.eye(3), torch.eye(3)]))
        >>> print(explain(conv, gp.SplitEdges("degree")(path)))
        relation  edges  MRSGCNConv  removed  merged
        up            2        75 %    0.949   0.422
        down          2        25 %    0.316   0.211
        tie           0         0 %        0       0
        layer columns: share of the relation in the received messages; self-loops have their own row
        removed: relative change of the output without the edges of the relation
        merged: the same with the mean of all relations' messages on these edges
    """
    check_model(model)
    if isinstance(data, (list, tuple)):
        raise TypeError(
            f"`data` must be one graph, or several as a `Batch.from_data_list`, got a {type(data).__name__}"
        )
    check_homogeneous("data", data)
    for name, function in (("score", score), ("forward", forward)):
        if function is not None:
            check_function(name, function, "None or a function")
    layers = {
        name or type(module).__name__: module
        for name, module in model.named_modules()
        if getattr(module, "num_relations", 1) > 1 and hasattr(module, "register_message_forward_hook")
    }
    # a converted model shares its split with its convolutions as `current`
    converted = [getattr(getattr(module, "current", None), "num_relations", 1) for module in model.modules()]
    num_relations = max([*converted, *(int(layer.num_relations) for layer in layers.values())])
    if num_relations < 2:
        raise ValueError(f"`model` must have a layer with several relations, got none in {type(model).__name__}")
    data = _split_as(model, data)
    check_split(data)
    types = data.edge_type
    check_shape("data.edge_type", types, ["E"])
    check_integer("data.edge_type", types)
    check_range("data.edge_type", types, num_relations)
    names = _names(names, data, num_relations)
    is_loop = data.edge_index[0] == data.edge_index[1]
    group = torch.where(is_loop, num_relations, types.long())  # relations without self-loops, then self-loops
    with preserved(model), _given_relations(model), torch.no_grad():
        model.eval()
        called, shares, output = _shares(model, data, forward, layers, num_relations)
        scores = one_hot(types.long(), num_relations).to(output.dtype)
        removed, merged, is_alike = [], [], []
        has_loops = bool(is_loop.any()) or any(share[num_relations] > 0 for share in shares)
        counts = torch.bincount(group, minlength=num_relations + 1).tolist()
        for r in range(num_relations + has_loops):
            if not counts[r]:  # exactly 0, where kernels may round differently in each call
                removed.append(0.0)
                merged.append(0.0)
                continue
            rest = data.edge_subgraph(group != r)
            rest.split_graph = None  # edges are taken away on purpose, no links are held out
            without = _first(call_model(model, rest, forward))
            removed.append(_change(output, without, score))
            with _merged(model, data, group == r, scores) as mixed:
                alike = _first(call_model(model, mixed, forward))
            merged.append(_change(output, alike, score))
            # with each other, not with `output`, which hooks for the shares may round differently
            is_alike.append(torch.equal(without, alike))
    if forward is not None and is_alike and all(is_alike):
        warnings.warn(
            "the output is the same without the edges of any relation: either `model` does not depend on them, or "
            "`forward` does not call it with its second argument, the graph without them",
            stacklevel=2,
        )
    number = num_relations + has_loops
    return RelationExplanation(
        (*names, "self-loops")[:number],
        tuple(counts[:number]),
        called,
        tuple(share[:number] for share in shares),
        tuple(removed),
        tuple(merged),
        is_score=score is not None,
        without_shares=tuple(
            name or type(module).__name__
            for name, module in model.named_modules()
            if isinstance(module, MessagePassing) and module not in layers.values()
        ),
    )


def _split_as(model: Module, data: Any) -> Any:
    """``data`` with the relations that a converted model gives its edges; unchanged if it has its own."""
    converted: list[Any] = [each for each in model.modules() if getattr(each, "takes_relations", False)]
    splits = [each.current.split for each in converted]
    is_split = not isinstance(data, Data) or data.edge_index is None or data.get("edge_type") is not None
    if is_split or not splits or any(each != splits[0] for each in splits):
        return data
    data = copy.copy(data)
    data.edge_type, order, data.split_rule = ranked(splits[0], data)
    if order is not None:
        data.node_order = order
    return data


def _names(names: Sequence[str] | None, data: Any, num_relations: int) -> tuple[str, ...]:
    if names is None:
        return split_names(data, num_relations) or tuple(map(str, range(num_relations)))
    if isinstance(names, str) or len(names) != num_relations:
        raise ValueError(f"`names` must have one entry for each of {num_relations} relations, got {names!r}")
    return tuple(map(str, names))


@contextmanager
def _given_relations(model: Module) -> Iterator[None]:
    """Converted models raise when they are called without relations: they would split the edges that are left anew."""
    # a model with an `edge_type` of its own hands relations to its convolutions itself
    splits: list[Any] = [each.current for each in model.modules() if getattr(each, "takes_relations", False)]
    for split in splits:
        split.is_given = True
    try:
        yield
    finally:
        for split in splits:
            split.is_given = False


@contextmanager
def _merged(model: Module, data: Any, chosen: Tensor, scores: Tensor) -> Iterator[Any]:
    """``data`` with equal scores of all relations for the ``chosen`` edges (E,); a learned split gives them itself."""
    learned = [module for module in model.modules() if getattr(module, "gives_scores", False)]
    if not learned:
        mixed = copy.copy(data)
        mixed.edge_type = torch.where(chosen[:, None], 1 / scores.size(1), scores)
        yield mixed
        return

    def equal_scores(_: Module, __: object, found: Tensor) -> Tensor:
        _check_edges(found.size(0), chosen.size(0), "in all")
        return torch.where(chosen[:, None], 1 / found.size(1), found)

    handles = [module.register_forward_hook(equal_scores) for module in learned]
    try:
        yield data
    finally:
        for handle in handles:
            handle.remove()


def _check_edges(came: int, wanted: int, which: str) -> None:
    if came != wanted:
        raise ValueError(f"a learned split must get the edges of `data`, {wanted} {which}, got {came}")


def _shares(
    model: Module, data: Any, forward: Any, layers: dict[str, Module], num_relations: int
) -> tuple[tuple[str, ...], tuple[tuple[float, ...], ...], Tensor]:
    """Names and shares of the layers by call (self-loops last), and the output of the model."""
    called: list[str] = []
    shares: list[tuple[float, ...]] = []
    handles = []

    def watch(name: str, layer: Any) -> None:
        graph: dict[str, Any] = {}

        def before(_: Module, arguments: tuple[Any, ...]) -> None:
            source, target = arguments[0]
            loops = source == target if arguments[1][0] == arguments[1][1] else torch.zeros_like(target).bool()
            types = arguments[2]["edge_type"]
            if types.dim() == 2:  # scores of a learned split: self-loops may have been replaced, other edges stay
                kept = data.edge_index[0] != data.edge_index[1]
                given = data.edge_type[kept].to(torch.long)
                _check_edges(int((~loops).sum()), given.size(0), "between different nodes")
                types = torch.zeros_like(target).masked_scatter(~loops, given)
            types = torch.where(loops, num_relations, types)
            graph.update(target=target, size=arguments[1], types=types)

        def after(_: Module, arguments: object, messages: Tensor) -> None:
            length = torch.stack(
                [_received(messages, graph, relation).norm() for relation in range(num_relations + 1)]
            ).double()
            called.append(name)
            shares.append(tuple((length / length.sum().clamp(min=torch.finfo(length.dtype).tiny)).tolist()))

        handles.extend([layer.register_propagate_forward_pre_hook(before), layer.register_message_forward_hook(after)])

    for name, layer in layers.items():
        watch(name, layer)
    try:
        output = _first(call_model(model, data, forward))
    finally:
        for handle in handles:
            handle.remove()
    return tuple(called), tuple(shares), output


def _received(messages: Tensor, graph: dict[str, Any], relation: int) -> Tensor:
    """Sum of the messages of each node in one relation, or of its self-loops, (N, ...)."""
    here = graph["types"] == relation
    out = messages.new_zeros(graph["size"][1], *messages.shape[1:])
    return out.index_add(0, graph["target"][here], messages[here])


def _first(output: Any) -> Tensor:
    found = output[0] if isinstance(output, tuple | list) and output else output
    if not isinstance(found, Tensor):
        raise TypeError(f"`model` must return a tensor, or one first, got {type(found).__name__}")
    return found


def _change(output: Tensor, other: Tensor, score: Callable[[Any], float] | None) -> float:
    if score is not None:
        return float(score(output)) - float(score(other))
    return float((output - other).norm() / output.norm().clamp(min=torch.finfo(output.dtype).tiny))
