"""Node ranks from which the relations of a split can be recomputed without its orderings."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphprism.splitting.graph import GraphLike, Parts, edge_chunks, edges_of, parts_of
from graphprism.splitting.split import Product, Split
from graphprism.splitting.splits import DOWN, TIE, UP, ByAttribute, ByDirection, ByOrder, Comparison, prepare


def ranks(compare: Comparison, parts: Parts) -> Tensor:
    """Dense ranks of values within each graph, from 0: (N, 1) for integers, (N, 2) for floats.

    Integers compare exactly. Floats tie within a tolerance, which is not transitive: a may tie with b and b with c, but
    not a with c. The second column is the largest rank that a node ties with: its own rank unless ties chain like this.
    Nodes have the same rank if they tie with the same nodes.
    """
    values, number = compare.values, parts.number
    by_value = values.argsort(stable=True)
    order = by_value[number[by_value].argsort(stable=True)]
    if order.numel() == 0:
        return order.new_zeros(0, 1 if compare.floor is None else 2)
    begins_part = number[order].diff() != 0
    rises, _ = compare(order[:-1], order[1:])
    place, begins = torch.arange(order.numel(), device=order.device), rises | begins_part
    first, last = _ends(begins)
    begins_rank = begins
    if compare.floor is not None and bool(compare(order[first], order[last])[0].any()):
        last = _last_ties(compare, order, place, last)
        first = torch.searchsorted(last, place)
        begins_rank = (first.diff() != 0) | (last.diff() != 0)
    rank = torch.cat([place.new_zeros(1), begins_rank.cumsum(0)])
    before = rank[_ends(begins_part)[0]]
    columns = [rank - before] if compare.floor is None else [rank - before, rank[last] - before]
    found = torch.stack(columns, dim=1)
    return torch.empty_like(found).index_copy_(0, order, found)


def _ends(begins: Tensor) -> tuple[Tensor, Tensor]:
    """First and last position of the group of each of N positions; a group begins at i + 1 if ``begins[i]``."""
    group = torch.cat([begins.new_zeros(1, dtype=torch.long), begins.cumsum(0)])
    sizes = torch.bincount(group)
    end = sizes.cumsum(0)
    return (end - sizes)[group], (end - 1)[group]


def _last_ties(compare: Comparison, order: Tensor, place: Tensor, last: Tensor) -> Tensor:
    """The last position that each position ties with, by bisection: ties are an interval of the sorted values."""
    low, high = place, last
    while bool((low < high).any()):
        middle = (low + high + 1) // 2
        rises, _ = compare(order[place], order[middle])
        low, high = torch.where(rises, low, middle), torch.where(rises, middle - 1, high)
    return low.cummax(0).values  # monotone despite rounding


def compare_ranks(source: Tensor, target: Tensor, widths: list[int]) -> Tensor:
    """`by_order` on the ranks of the two ends of every edge: (E, C), (E, C) -> (E,) up, down or tie.

    ``widths`` has the number of columns of each ordering; the first ordering without a tie decides.
    """
    relation = torch.full((source.size(0),), TIE, dtype=torch.long, device=source.device)
    at = 0
    for width in widths:
        reach = at + width - 1
        undecided = relation == TIE
        relation = relation.masked_fill(undecided & (source[:, reach] < target[:, at]), UP)
        relation = relation.masked_fill(undecided & (target[:, reach] < source[:, at]), DOWN)
        at += width
    return relation


class Factor(NamedTuple):
    """Description of a factor of a product of splits, from which its relations can be recomputed if possible."""

    kind: str  # "order", "attribute", "direction" or "other"
    num_relations: int | None
    detail: Any  # widths of the columns of "order", name of "attribute"
    name: str | None = None  # the split of "order" as text, where that identifies it


def write_rule(factors: list[Factor]) -> str:
    """Factors as a string, which survives samplers, batching and files.

    >>> write_rule([Factor("order", 3, [1]), Factor("attribute", 4, "bond")])
    '[["order", 3, [1]], ["attribute", 4, "bond"]]'
    """
    return json.dumps([each if each.name is not None else each[:3] for each in factors])


def read_rule(rule: str) -> list[Factor]:
    """The factors in a string of `write_rule`."""
    try:
        return [Factor(*each) for each in json.loads(rule)]
    except (TypeError, ValueError):
        raise ValueError(f"`data.split_rule` must be as `SplitEdges` wrote it, got {rule!r}") from None


def num_relations_of(factors: list[Factor]) -> int | None:
    """Number of relations of the product; None if that of a factor is unknown."""
    count = 1
    for factor in factors:
        if factor.num_relations is None:
            return None
        count *= factor.num_relations
    return count


class RankedSplit(NamedTuple):
    """Relations of the edges, the node ranks they come from (None without orderings), and the `write_rule` text."""

    relation: Tensor
    order: Tensor | None
    rule: str


def order_columns(split: Split, graph: GraphLike) -> tuple[Tensor | None, list[list[int]]]:
    """Node ranks for every ordering of ``split``, (N, C), and the number of columns per ordering, for each factor."""
    parts, columns, widths = parts_of(graph), [], []
    for factor in factors_of(split):
        if isinstance(factor, ByOrder):
            found = [ranks(prepare(each, graph, factor.tolerance), parts) for each in factor.orderings]
            columns += found
            widths.append([each.size(1) for each in found])
    return torch.cat(columns, dim=1) if columns else None, widths


def ranked(split: Split, graph: GraphLike) -> RankedSplit:
    """``split(graph)`` with the ranks that it compared, (N,) for one column, else (N, C).

    >>> from graphprism.splitting import Graph, by_order
    >>> path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> relation, order, rule = ranked(by_order("degree"), path)
    >>> relation.tolist(), order.tolist()
    ([0, 1, 1, 0], [0, 1, 0])
    >>> print(rule)
    [["order", 3, [1], "by_order('degree')"]]
    """
    order, widths = order_columns(split, graph)
    relation, rule = relations_by_ranks(split, graph, order, widths)
    return RankedSplit(relation, order if order is None or order.size(1) > 1 else order[:, 0], rule)


def relations_by_ranks(
    split: Split, graph: GraphLike, order: Tensor | None, widths: list[list[int]]
) -> tuple[Tensor, str]:
    """Relations of the edges, given the ranks of the nodes and their columns (`order_columns`), and the rule."""
    edge_index, relation, stride = edges_of(graph), None, 1
    found, place, at = [], 0, 0
    for factor in factors_of(split):
        if isinstance(factor, ByOrder):
            assert order is not None  # every ordering has columns
            own = widths[place]
            columns = order[:, at : at + sum(own)]
            part = torch.cat([compare_ranks(columns[i], columns[j], own) for i, j in edge_chunks(edge_index)])
            found.append(_described(factor)._replace(detail=own))
            place, at = place + 1, at + sum(own)
        else:
            part = factor(graph)
            if part.dim() == 2:  # scores: one column per relation, no relation number
                return split(graph), write_rule([Factor("other", split.num_relations, None)])
            found.append(_described(factor))
        relation = part if relation is None else relation + stride * part
        stride *= factor.num_relations or 1
    assert relation is not None  # a split has at least one factor
    return relation, write_rule(found)


def relations_between_types(split: Split, graph: GraphLike) -> tuple[Tensor, str]:
    """Relations of edges between nodes of two types, which are not compared, and the rule."""
    relation = split.between_types(graph)
    if relation.dim() == 2:
        return relation, write_rule([Factor("other", split.num_relations, None)])
    return relation, write_rule([_described(each) for each in factors_of(split)])


def is_of(rule: list[Factor], split: Split) -> bool:
    """Whether a rule may be of a split: it has the same orderings and attributes, as far as they are known."""
    own = [_described(each) for each in factors_of(split)]
    if any(each.kind == "other" for each in [*rule, *own]):
        return True
    return len(rule) == len(own) and all(map(_may_be_same, rule, own))


def _may_be_same(one: Factor, other: Factor) -> bool:
    if one.kind != "order" or other.kind != "order":
        return (one.kind, one.detail) == (other.kind, other.detail)
    # by_order(degree), a function, is by_order("degree")
    names = [each.name and each.name.replace("'", "") for each in (one, other)]
    return None in names or names[0] == names[1]


def _described(split: Split) -> Factor:
    if isinstance(split, ByOrder):
        name = repr(split)  # that of a function or a tensor does not identify it
        return Factor("order", 3, [], None if "<" in name else name)
    if isinstance(split, ByAttribute) and split.column is None:
        return Factor("attribute", split.num_relations, split.attribute)
    kind = "direction" if isinstance(split, ByDirection) else "other"
    return Factor(kind, split.num_relations, None)


def factors_of(split: Split) -> list[Split]:
    """Factors of a product; the first one varies fastest in the numbering of relations."""
    return [*factors_of(split.left), *factors_of(split.right)] if isinstance(split, Product) else [split]
