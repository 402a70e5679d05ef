"""Edges of new graphs that belong to no relation of a trained network, which has no weights for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from graphprism._text import counted
from graphprism.datasets.preprocessing import ColumnCode
from graphprism.io.columns import Columns, as_text
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
) -> UnseenEdges | None:
    """The edges of a graph that one of the fitted splits has no relation for; None if every edge has one.

    Args:
        splits: The fitted splits.
        graph: The new graph, or all of them as one.
        text: The split as the user wrote it.
        codes: Encodings of the columns of edges; none where tensors were given.
        tables: Tables of edges to look for the value in, if any.
    """
    for split in splits:
        if isinstance(split, ByOrder):
            continue
        mask = relations_or_none(split, graph)[1]
        if not bool(mask.any()):
            continue
        inner = split.split if isinstance(split, Only) else split
        for factor in factors_of(inner):
            if isinstance(factor, ByAttribute):
                code = codes[factor.column or 0] if codes else None
                values = by_attribute(factor.attribute, column=factor.column)(graph)[mask]
                # the last code of a category is that of all other values
                known = factor.num_relations if code is None or code.kind != "category" else len(code.values)
                if known is not None and bool((values >= known).any()):
                    why = _about_value(factor, int(values[values >= known][0]), text, code, tables)
                    return UnseenEdges(mask, why, "" if code is None else code.name)
        relations = relations_or_none(inner, graph)[0][mask]
        such = f", such as {_name(inner, int(relations[0]), codes)}" if relations.dim() == 1 else ""
        must = f"every edge must be of a relation of the split {text} that training had"
        return UnseenEdges(mask, f"{must}, got {counted(int(mask.sum()), 'edge')} of others{such}: {_NO_WEIGHTS}")
    return None


def _about_value(factor: ByAttribute, came: int, text: str, code: ColumnCode | None, tables: Sequence[Columns]) -> str:
    """A sentence about the first value of a column without a relation."""
    for table in tables:
        if code is None:
            break
        column = as_text(table[code.name])
        known = _values(code, factor.num_relations or 0)
        rows = [row for row, value in enumerate(column.tolist()) if value not in known]
        if rows:
            value = column[rows[0]]
            got = "none" if value is None else repr(value)
            more = f", and {counted(len(rows), 'such edge')} in all" if len(rows) > 1 else ""
            shown = ", ".join(map(repr, known[:_MOST_VALUES])) + (", ..." if len(known) > _MOST_VALUES else "")
            must = (
                f"the column {code.name!r} must hold values that training had, as the split {text} needs them ({shown})"
            )
            return f"{table.path}: {must}, got {got} in row {rows[0] + 1}{more}: {_NO_WEIGHTS}"
    must = f"`{factor.attribute}` must be below {factor.num_relations}, as in training, for the split {text}"
    return f"{must}, got {came}: {_NO_WEIGHTS}"


def _values(code: ColumnCode, relations: int) -> list[str]:
    """Values of a column that have a relation; all of them where *other* is one."""
    return list(code.values) if code.kind == "category" else list(map(str, range(relations)))


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
