"""A data set of tables: guesses the roles of columns, fits the preprocessing, reads or draws folds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from graphprism._text import counted
from graphprism.datasets.assemble import assemble
from graphprism.datasets.folds import TRAIN, parse_folds
from graphprism.datasets.from_data import drawn_folds, node_masks, with_links, with_target
from graphprism.datasets.graph_tables import GraphTables, find_column, missing_table
from graphprism.datasets.import_options import ImportOptions, refuse
from graphprism.datasets.packed_dataset import PackedDataset
from graphprism.datasets.preprocessing import ColumnCode, Preprocessing, wanted_columns
from graphprism.datasets.targets import EncodedTarget, encode_target, known_entries, standardised
from graphprism.io.columns import Columns, is_number, stray_text

Array = npt.NDArray[Any]

# A text column with more distinct values than this is a name or a description, not a feature.
_MOST_CATEGORIES = 1000
# A faulty column of ids must have at least this share of distinct values, and hold this share of the ends of edges.
_MOSTLY = 0.9
# Names of columns, ignoring case and punctuation, whose whole numbers are types and no quantities.
_TYPE_NAMES = ("type", "kind", "class", "category", "relation", "rel", "bond")
# An edge column with at most so many distinct whole numbers may be meant as a type.
_MOST_EDGE_TYPES = 50
# Words for 1: where a target has one of them, it is the positive value.
_YES = ("1", "yes", "y", "true", "t", "positive")


def from_tables(tables: GraphTables, name: str, options: ImportOptions) -> PackedDataset:
    """Guesses the roles of columns, fits the preprocessing, and packs; see `from_files`."""
    notices = list(tables.notices)
    level = "link" if options.task == "link" else "graph" if tables.graphs is not None else "node"
    names = _part_columns(tables, level, options, notices)
    holder = tables.graphs if level == "graph" else tables.nodes
    target, folds = _targets(tables, holder, level, names, options, notices)
    if level == "graph" and target is not None and not target.known.all():
        notices.append(f"{counted(int((~target.known).sum()), 'graph')} without a target left out.")
    # with several folds every row is a training row in one of them: fit features to all rows
    train: Array = np.all(folds == 0, 1) if folds.shape[1] == 1 else np.all(folds >= 0, 1)
    pre = _fit(tables, level, names, target, train, options, notices)
    if target is not None and target.task == "regression":
        if options.scale_target:
            target, mean, scale = standardised(target, train)
            pre = replace(pre, target_mean=mean, target_scale=scale)
        else:
            notices.extend(_unscaled_notice(target, train, options))
    dataset = _with_folds(assemble(tables, pre, name, notices).dataset, target, folds, options)
    return replace(dataset, preprocessing=replace(pre, notices=tuple(notices)).to_dict())


def _part_columns(tables: GraphTables, level: str, options: ImportOptions, notices: list[str]) -> dict[str, str]:
    """Columns by role; empty where a table has none."""
    nodes, edges, graphs = tables.nodes, tables.edges, tables.graphs
    besides = (*options.target, *filter(None, [options.column("fold")]))
    found = {"id": "", "graph": "", "edge_graph": "", "graph_id": "", "fold": ""}
    found["source"] = find_column("source", edges, options.column("source"))
    found["destination"] = find_column("destination", edges, options.column("destination"), [found["source"]])
    if not found["source"] or not found["destination"]:
        # the graph of an edge is none of its ends
        besides_ends = find_column("graph", edges, None) if graphs is not None else ""
        columns = [each for each in edges if each != besides_ends]
        if len(columns) < 2:
            raise ValueError(f"{edges.path}: must have two columns with the ends of edges, got {columns}")
        found["source"], found["destination"] = columns[:2]
        names = f"{columns[0]!r} and {columns[1]!r}"
        notices.append(f"{edges.path.name}: the ends of edges are {names} (--source and --destination name others).")
    ends = [found["source"], found["destination"]]
    if weight := _weight_column(edges, ends, options, notices):
        found["weight"] = weight
    if nodes is not None:
        if graphs is not None:
            found["graph"] = find_column("graph", nodes, options.column("graph"), besides)
        found["id"] = options.column("id") or _id_column(tables, found, besides)
        if not found["id"]:
            notices.append(f"{nodes.path.name} has no column of ids: nodes are numbered from 0 in its order.")
    if _may_be_an_edge(tables, found):
        names = f"{found['source']}, {found['destination']}"
        notices.append(
            f"{edges.path.name}: its first line is read as names of columns, {names!r}; if it is an edge, write a line "
            "of names above it."
        )
    if graphs is not None:
        if nodes is None or not found["graph"]:
            where = "a table of nodes" if nodes is None else f"{nodes.path}"
            named = "(--graph NAME or columns={'graph': NAME} names it)"
            raise ValueError(f"{where} must have a column with the graph of each node, such as graph_id {named}")
        found["edge_graph"] = find_column("graph", edges, None, [found["source"], found["destination"]])
        found["graph_id"] = find_column("graph_id", graphs, options.column("graph_id"), besides) or next(iter(graphs))
    holder = graphs if level == "graph" else nodes
    if holder is not None and level != "link":
        guessed = find_column("fold", holder, options.column("fold"), (*options.target, *options.drop))
        if guessed and (options.column("fold") or parse_folds(holder[guessed]) is not None):
            found["fold"] = guessed
    return found


def _weight_column(edges: Columns, ends: Sequence[str], options: ImportOptions, notices: list[str]) -> str:
    """The column of weights: the one that the user named, or one of numbers that is named so; empty where none is."""
    if given := find_column("weight", edges, options.column("weight"), edges):
        return given
    taken = {*ends, *options.drop, *options.categories, *options.numbers}
    numbers = [name for name in edges if edges[name].dtype.kind in "if"]
    name = find_column("weight", edges, None, {*taken, *(set(edges) - set(numbers))})
    text = find_column("weight", edges, None, {*taken, *numbers})
    if text and not name and _says_weight(text):
        cells = [cell for cell in edges[text].tolist() if cell is not None]
        if 2 * sum(map(is_number, cells)) > len(cells):
            row, cell = stray_text(edges[text])
            ways = f"correct the table, or import the data with --drop {text} or --category {text}"
            must = f"{edges.path}: the column {text!r} must hold the weight of every edge"
            raise ValueError(f"{must}, got {cell!r} in row {row}; {ways}")
    if name:
        ways = f"--drop {name} leaves it out, --number {name} makes it a feature"
        notices.append(f"{edges.path.name}: column {name!r} is the weight of the edges ({ways}).")
    return name


def _says_weight(name: str) -> bool:
    """Whether a column is of weights by its name alone, which `value` or `w` is not."""
    return "weight" in name.lower()


def _may_be_an_edge(tables: GraphTables, names: Mapping[str, str]) -> bool:
    """Whether the first line of the edges, taken for names of columns, may be an edge between named nodes."""
    edges, ends = tables.edges, (names["source"], names["destination"])
    if not edges.header_is_guessed or any(column.dtype != object for column in edges.values()):
        return False  # names above numbers are a header
    if tables.nodes is not None and names["id"]:
        return set(ends) <= set(tables.nodes.text(names["id"]).tolist())
    has_usual_names = ends == (find_column("source", edges, None), find_column("destination", edges, None, ends[:1]))
    return not has_usual_names or set(ends) <= {text for end in ends for text in edges.text(end).tolist()}


def _id_column(tables: GraphTables, names: Mapping[str, str], besides: Sequence[str]) -> str:
    """The column of nodes that holds all ends of edges; else one named like an id, or one with most of the ends.

    The last case is for faulty tables, such as an edge to an unknown node or a duplicate id: the error about it can
    then name the row.
    """
    nodes, edges = tables.nodes, tables.edges
    if nodes is None:
        return ""
    taken = [*besides, names["graph"]]
    named = find_column("id", nodes, None, taken)
    ends = {text for part in ("source", "destination") for text in edges.text(names[part]).tolist()}
    held: dict[str, int] = {}
    for name in dict.fromkeys([*filter(None, [named]), *(each for each in nodes if each not in taken)]):
        column = nodes[name]
        if column.dtype.kind not in "iO":
            continue
        values = set(nodes.text(name).tolist()) if column.dtype == object or np.unique(column).size > 2 else set()
        if ends <= values and (len(values) == column.size or tables.graphs is not None):
            return name
        if len(values) >= _MOSTLY * column.size:
            held[name] = len(ends & values)
    if named or ends <= {str(number) for number in nodes.rows}:
        return named
    best = max(held, key=lambda name: held[name], default="")
    return best if held.get(best, 0) >= _MOSTLY * len(ends) else ""


def _targets(
    tables: GraphTables,
    holder: Columns | None,
    level: str,
    names: Mapping[str, str],
    options: ImportOptions,
    notices: list[str],
) -> tuple[EncodedTarget | None, Array]:
    """Targets of nodes or graphs and their folds (R, S), from a column or drawn; -1 for a row in no fold."""
    shares = " / ".join(f"{share:g}" for share in options.shares)
    if level == "link":
        reason = "the task link, whose targets are the edges (`--drop COLUMN`, `drop=`, leaves a column out)"
        refuse(options, ("target", "positive"), reason)
        refuse(options, ("folds",), "the task link, which has one division of its edges")
        held = "those of validation and test are not among the edges of the graph"
        notices.append(f"Folds of edges are drawn {shares} with seed {options.seed}; {held}.")
        return None, np.zeros((0, 1), np.int64)
    what = "graphs" if level == "graph" else "nodes"
    if holder is None:
        raise missing_table(tables.edges.path.parent, what, " for a target")
    if not options.target:
        there = ", ".join(map(repr, list(holder)[:12])) + (", ..." if len(holder) > 12 else "")
        named = "(--target or target=, --task or task=)"
        raise ValueError(f"{holder.path}: a target must be named, or the task link {named}; it has {there}")
    columns = wanted_columns(holder, options.target)
    title = f"{holder.path.name}: the target {', '.join(map(repr, options.target))}"
    each = [f"{holder.path.name}: the target {name!r}" for name in options.target]
    target = encode_target(columns, options.task, title, each, options.positive)
    notices.extend(_positive_notice(target, options))
    if level == "graph":
        refuse(options, ("folds",), "targets of graphs, which have one fold")
        others = [
            each for each in holder if each not in (names["graph_id"], names["fold"], *options.target, *options.drop)
        ]
        if others:
            notices.append(
                f"{holder.path.name}: not read: {', '.join(map(repr, others))}; features are of nodes and edges."
            )
    if not names["fold"]:
        notices.append(f"Folds are drawn and stratified {shares} with seed {options.seed}.")
        return target, drawn_folds(target, options.shares, options.folds if level == "node" else 1, options.seed)
    way = f"folds of the column {names['fold']!r} (`--drop {names['fold']}`, `drop=`, leaves it out)"
    refuse(options, ("shares", "folds", "seed"), way)
    if options.column("fold") is None:
        notices.append(
            f"{holder.path.name}: column {names['fold']!r} holds the folds (--drop {names['fold']} draws them)."
        )
    folds = parse_folds(holder[names["fold"]])
    if folds is None:
        must = "must hold train, valid and test, or numbers from 0"
        raise ValueError(f"{holder.path.name}: the fold column {names['fold']!r} {must}")
    for column in folds.T:
        for fold, word in enumerate(("training", "validation", "test")):
            if not ((column == fold) & target.known).any():
                must = f"must have a row with a target for {word}"
                raise ValueError(f"{holder.path.name}: the fold column {names['fold']!r} {must}, got none")
    return target, np.where(target.known[:, None], folds, -1)


def _positive_notice(target: EncodedTarget, options: ImportOptions) -> list[str]:
    """A sentence where F1 and AP would be of the commoner of two words, which is hardly ever the sought one."""
    if target.task != "binary" or options.positive is not None or target.classes[1].lower() in _YES:
        return []
    count = int(target.y[target.known].sum())
    if 2 * count <= int(target.known.sum()):
        return []
    other, chosen = target.classes
    way = f"--positive {other} or positive={other!r} takes the rarer value"
    return [f"F1 and AP count {chosen!r} as the positive value, the second in alphabetical order: {way}."]


def _fit(
    tables: GraphTables,
    level: str,
    names: dict[str, str],
    target: EncodedTarget | None,
    train: Array,
    options: ImportOptions,
    notices: list[str],
) -> Preprocessing:
    """Fits features to the training rows."""
    nodes, edges = tables.nodes, tables.edges
    parts = {name for name in names.values() if name} | {*options.target, *options.drop}
    there = {*edges, *(nodes or ()), *(tables.graphs or ())}
    for name in options.drop:
        if name in (*options.target, options.column("fold")):
            raise ValueError(f"`drop` must leave the target and the folds, got {name!r}")
    for name in (*options.drop, *options.categories, *options.numbers):
        if name not in there:
            raise ValueError(f"{edges.path.parent}: no table has the column {name!r} that is named")
    node_codes: list[ColumnCode] = []
    if nodes is not None:
        rows = np.ones(len(nodes.rows), dtype=bool)
        if level == "node":
            rows = train
        elif level == "graph" and tables.graphs is not None:
            wanted = set(tables.graphs.text(names["graph_id"])[train])
            rows = np.array([graph in wanted for graph in nodes.text(names["graph"])], dtype=bool)
        # a column of nodes may be called as one of edges; the target never is a feature, whatever its name
        of_nodes = {names["id"], names["graph"], names["fold"], *options.target, *options.drop}
        own = parts - ({names["source"], names["destination"], names.get("weight", "")} - of_nodes)
        node_codes = _codes(nodes, [each for each in nodes if each not in own], rows, options, notices)
    ends = {names["source"], names["destination"], names["edge_graph"], names.get("weight", ""), *options.drop}
    edge_codes = _edge_codes(edges, [each for each in edges if each not in ends], options, notices)
    all_types = bool(node_codes) and all(code.kind == "category" for code in node_codes)
    directed = options.directed if options.directed is not None else bool(tables.directed)
    return Preprocessing(
        level=level,
        names=names,
        nodes=tuple(node_codes),
        edges=tuple(edge_codes),
        node_types=all_types and level == "graph",
        directed=directed,
        targets=options.target,
        classes=() if target is None else target.classes,
        files=tables.files,
    )


def _codes(
    table: Columns, names: Sequence[str], rows: Array, options: ImportOptions, notices: list[str]
) -> list[ColumnCode]:
    found = []
    for name in names:
        column = table[name]
        if name in options.numbers and column.dtype == object:
            row, text = stray_text(column)
            raise ValueError(f"{table.path}: the column {name!r} must hold numbers, got {text!r} in row {row}")
        is_type = column.dtype.kind == "i" and name not in options.numbers and _names_type(name)
        if is_type and name not in options.categories:
            notices.append(f"{table.path.name}: column {name!r} is a category by its name (--number {name} undoes it).")
        is_category = is_type or name in options.categories
        code = ColumnCode.fit(name, table.text(name) if is_category else column, rows, category=is_category)
        if code.kind == "category" and name not in options.categories:
            many = len(code.values) > min(_MOST_CATEGORIES, max(10, len(table.rows) // 2))
            if many or not code.values:
                why = f"{len(code.values):,} different values" if code.values else "no values"
                if code.values and column.dtype == object:
                    row, text = stray_text(column)
                    why += f", text such as {text[:40]!r} in row {row}"
                notices.append(f"{table.path.name}: column {name!r} left out: {why} (--category {name} takes it).")
                continue
        notices.extend(code.notices(code.of(table), table.path.name))
        found.append(code)
    return found


def _names_type(name: str) -> bool:
    words = re.split(r"[^a-z0-9]+", name.lower())
    return words[-1] in _TYPE_NAMES or "".join(words) in {
        f"{of}{each}" for of in ("edge", "node") for each in _TYPE_NAMES
    }


def _edge_codes(table: Columns, names: Sequence[str], options: ImportOptions, notices: list[str]) -> list[ColumnCode]:
    """Codes of edge columns: if there are categories, numeric columns are dropped: networks take types of edges."""
    codes = _codes(table, names, np.ones(len(table.rows), dtype=bool), options, notices)
    categories = [code for code in codes if code.kind == "category"]
    numbers = [code.name for code in codes if code.kind != "category"]
    if numbers:
        listed = ", ".join(map(repr, numbers))
        out = f"numbers beside types are left out: {listed} (--weight {numbers[0]} makes weights of them)"
        what = out if categories else f"{listed} kept as numbers"
        few = [name for name in numbers if name not in options.numbers and _has_few_values(table[name])]
        hint = f" (--category {','.join(few)} makes types of them)" if few else ""
        notices.append(f"{table.path.name}: {what}{'' if categories else '; networks here take types of edges'}{hint}.")
    return categories or codes


def _has_few_values(column: Array) -> bool:
    return column.dtype.kind in "ib" and np.unique(column).size <= _MOST_EDGE_TYPES


# A new network gives outputs of about 1, and most epochs pass until it has found a mean far from it: a target with mean
# 2,218 and deviation 387, a GCN and the default recipe have an MAE of 1,561 after 200 epochs, standardised 319 after 3.
_LARGE = 10.0


def _unscaled_notice(target: EncodedTarget, train: Array, options: ImportOptions) -> list[str]:
    seen = known_entries(target.y[train])
    mean, scale = float(seen.mean()) if seen.size else 0.0, float(seen.std()) if seen.size else 1.0
    if max(abs(mean), scale) <= _LARGE:
        return []
    name = ", ".join(options.target)
    return [f"{name!r} is trained as it is, mean {mean:.4g}: standardised (--scale-target) it takes far fewer epochs."]


def _with_folds(
    graph: PackedDataset, target: EncodedTarget | None, folds: Array, options: ImportOptions
) -> PackedDataset:
    if target is None:
        return with_links(graph, options.metric, options.shares, options.seed)
    if graph.level == "node":
        return with_target(graph, target, options.metric, **node_masks(folds))
    # graphs follow the order of their table; those without a target or fold are dropped
    split = torch.from_numpy(folds[:, 0])
    whole = with_target(graph, target, options.metric, split=split.clamp(min=TRAIN))
    return whole.select((split >= 0).nonzero().view(-1))
