"""Edges of new graphs that belong to no relation of a trained network, which has no weights for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from graphprism._text import counted
from graphprism.datasets.preprocessing import ColumnCode
from graphprism.io.columns import Array, Columns, as_text
from graphprism.splitting import GraphLike, Split, by_attribute
from graphprism.splitting.ranks import factors_of
from graphprism.splitting.split import Only, Product
from graphprism.splitting.splits import ByAttribute, ByOrder

# Values of a column that a sentence lists.
_MOST_VALUES = 8
_NO_WEIGHTS = "the network has no weights for it; correct the table, or train on graphs with such edges"


@dataclass(frozen=True, eq=False)
class UnseenEdges:
    """Edges without a relation.

    Attributes:
        mask: (E,) which edges.
        why: A sentence about the first of them: what must hold and what came.
        column: Name of the column of the table of edges with a value that training did not have; empty for others.
    """

    mask: Tensor
    why: str
    column: str = ""


def relations_or_none(split: Split, graph: GraphLike) -> tuple[Tensor, Tensor]:
    """Relations (E,), or scores (E, R), of a fitted split, and a mask (E,) of edges that have none.

    >>> from graphprism.splitting import Graph
    >>> graph = Graph(torch.tensor([[0, 1], [1, 2]]), num_nodes=3, edge_attr=torch.tensor([1, 7]))
    >>> relations_or_none(by_attribute("edge_attr", 3), graph)[1].tolist()
    [False, True]
    """
    if isinstance(split, ByAttribute) and split.num_relations is not None:
        found = by_attribute(split.attribute, column=split.column)(graph)
        other = found >= split.num_relations
        return found.masked_fill(other, 0), other
    if isinstance(split, Product):
        (left, no_left), (right, no_right) = relations_or_none(split.left, graph), relations_or_none(split.right, graph)
        return split.combined(left, right), no_left | no_right
    if isinstance(split, Only):
        inner, none = relations_or_none(split.split, graph)
        found, other = split.restricted(inner)
        return found, none | other
    found = split(graph)
    return found, torch.zeros(found.size(0), dtype=torch.bool, device=found.device)


def find_unseen(
    splits: Sequence[Split], graph: GraphLike, text: str, codes: Sequence[ColumnCode], tables: Sequence[Columns]
) -> list[UnseenEdges]:
    """The edges of a graph that one of the fitted splits has no relation for, each once, by cause; empty without any.

    Args:
        splits: The fitted splits.
        graph: The new graph, or all of them as one.
        text: The split as the user wrote it.
        codes: Encodings of the columns of edges; none where tensors were given.
        tables: Tables of edges to look for the value in, if any.
    """
    found: list[UnseenEdges] = []
    for split in splits:
        if isinstance(split, ByOrder):
            continue
        rest = relations_or_none(split, graph)[1]
        for each in found:
            rest = rest & ~each.mask
        inner = split.split if isinstance(split, Only) else split
        for factor, trained in zip(factors_of(inner), _trained_values(split), strict=True):
            if not isinstance(factor, ByAttribute):
                continue
            code = codes[factor.column or 0] if codes else None
            values = by_attribute(factor.attribute, column=factor.column)(graph)
            below = factor.num_relations
            known = torch.tensor(trained if code or below is None else range(below), device=values.device)
            mask = rest & ~torch.isin(values, known)
            if bool(mask.any()):
                why = _about_value(factor, int(values[mask][0]), trained, text, code, tables)
                found.append(UnseenEdges(mask, why, "" if code is None else code.name))
                rest = rest & ~mask
        if bool(rest.any()):
            relations = relations_or_none(inner, graph)[0][rest]
            such = f", such as {_name(inner, int(relations[0]), codes)}" if relations.dim() == 1 else ""
            must = f"every edge must be of a relation of the split {text} that training had"
            why = f"{must}, got {counted(int(rest.sum()), 'edge')} of others{such}: {_NO_WEIGHTS}"
            found.append(UnseenEdges(rest, why))
    return found


def _trained_values(split: Split) -> list[list[int]]:
    """Values of each factor of a fitted split that occur in one of its relations.

    >>> from graphprism.splitting import only
    >>> _trained_values(only(by_attribute("a", 2) * by_attribute("b", 4), [1, 5]))  # (1, 0) and (1, 2)
    [[1], [0, 2]]
    >>> _trained_values(only(by_attribute("a"), [3, 5]))
    [[3, 5]]
    """
    factors = factors_of(split.split if isinstance(split, Only) else split)
    relations = split.kept if isinstance(split, Only) else range(split.num_relations or 0)
    found, stride = [], 1
    for factor in factors:
        count = factor.num_relations or max(relations, default=0) + 1  # not known of the last one alone
        found.append(sorted({relation // stride % count for relation in relations}))
        stride *= count
    return found


def _about_value(
    factor: ByAttribute, came: int, trained: list[int], text: str, code: ColumnCode | None, tables: Sequence[Columns]
) -> str:
    """A sentence about the first value of a column without a relation; ``trained`` are those with one."""
    for table in tables:
        if code is None:
            break
        column = code.of(table)
        rows = np.flatnonzero(~np.isin(_numbers(code, column), trained))
        if rows.size:
            value = as_text(column)[rows[0]]
            got = "none" if value is None else repr(value)
            more = f", and {counted(int(rows.size), 'such edge')} in all" if rows.size > 1 else ""
            known = [code.values[number] for number in trained if number < len(code.values)]
            known = known if code.kind == "category" else list(map(str, trained))
            shown = ", ".join(map(repr, known[:_MOST_VALUES])) + (", ..." if len(known) > _MOST_VALUES else "")
            must = (
                f"the column {code.name!r} must hold values that training had, as the split {text} needs them ({shown})"
            )
            return f"{table.path}: {must}, got {got} in row {rows[0] + 1}{more}: {_NO_WEIGHTS}"
    values = f"below {factor.num_relations}" if factor.num_relations else f"one of {trained}"
    must = f"`{factor.attribute}` must be {values}, as in training, for the split {text}"
    return f"{must}, got {came}: {_NO_WEIGHTS}"


def _numbers(code: ColumnCode, column: Array) -> Array:
    """The value of every row in ``edge_attr``: of a column of categories or flags, which alone a split reads."""
    return code.codes(column) if code.kind == "category" else code.encode(column)[:, 0]


def _name(split: Split, relation: int, codes: Sequence[ColumnCode]) -> str:
    """The relation of a product in words, with the values of the user's columns."""
    words = []
    for factor in factors_of(split):
        count = factor.num_relations or relation + 1
        relation, own = divmod(relation, count)
        code = codes[factor.column or 0] if isinstance(factor, ByAttribute) and codes else None
        if code is not None and code.kind == "category":
            words.append(f"{code.name} {code.values[own]!r}" if own < len(code.values) else f"no known {code.name}")
        else:
            words.append(factor.names[own] if factor.names else str(own))
    return " and ".join(words)
