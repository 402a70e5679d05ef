"""Summary of a data set in a few lines, with warnings about leaks between folds."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from graphprism._checks import check_type
from graphprism._text import counted, percent
from graphprism.datasets.leak_audit import leak_audit
from graphprism.datasets.packed_dataset import MASKS, SPLITS, PackedDataset
from graphprism.datasets.preprocessing import ColumnCode, Preprocessing

# Difference in accuracy between look-up and majority class above which a warning is given.
_LEAK = 0.05
_MOST_CLASSES_SHOWN = 10


def describe(dataset: PackedDataset) -> list[str]:
    """Lines about sizes, features, targets, folds and edges, then the notices of the import, then warnings.

    >>> from graphprism.datasets import molecules
    >>> describe(molecules(50))[0]
    'molecules: 50 graphs, 1,113 nodes, 2,346 edges, undirected; graph regression by mae.'
    """
    check_type("dataset", dataset, PackedDataset, "a PackedDataset")
    pre = None if dataset.preprocessing is None else Preprocessing.from_dict(dataset.preprocessing)
    return [
        _sizes(dataset),
        _features(dataset, pre),
        *_weights(dataset),
        *_targets(dataset, pre),
        _folds(dataset),
        _edges(dataset),
        *(() if pre is None else pre.notices),
        *warnings_of(dataset),
    ]


def warnings_of(dataset: PackedDataset) -> list[str]:
    """One sentence for each leak between folds that was found."""
    found = [_leak_by_neighbours(dataset), _leak_by_copies(dataset)]
    return [f"Warning: {sentence}" for sentence in found if sentence]


def _sizes(dataset: PackedDataset) -> str:
    nodes, edges = counted(dataset.x.size(0), "node"), counted(dataset.edge_index.size(1), "edge")
    way = "directed" if dataset.directed else "undirected"
    what = f"{dataset.level} {dataset.task} by {dataset.metric}"
    return f"{dataset.name}: {counted(dataset, 'graph')}, {nodes}, {edges}, {way}; {what}."


def _features(dataset: PackedDataset, pre: Preprocessing | None) -> str:
    if pre is not None and pre.is_of_tables:
        nodes = _kinds(pre.nodes) or "none (each node gets a 1)"
        edges = f"; edges: {_kinds(pre.edges)}" if pre.edges else ""
        return f"Node features: {nodes}{edges}."
    nodes = (
        f"{counted(len(dataset.node_types), 'column')} of types"
        if dataset.node_types
        else (counted(dataset.x.size(1), "feature"))
    )
    edges = "" if dataset.edge_attr is None else f"; edges: {counted(dataset.edge_attr.size(1), 'column')}"
    return f"Node features: {nodes}{edges}."


def _weights(dataset: PackedDataset) -> list[str]:
    weight = dataset.edge_weight
    if weight is None or not weight.numel():
        return []
    return [f"Edge weights: {weight.min():.4g} to {weight.max():.4g}, mean {weight.double().mean():.4g}."]


def _kinds(codes: Sequence[ColumnCode]) -> str:
    count = Counter(code.kind for code in codes)
    many = {"number": "numbers", "flag": "columns of 0 and 1", "category": "categories"}
    one = {"number": "number", "flag": "column of 0 and 1", "category": "category"}
    parts = [counted(count[kind], one[kind], many[kind]) for kind in one if count[kind]]
    named = [f"{code.name} ({counted(code.values, 'value')})" for code in codes if code.kind == "category"]
    return ", ".join(parts) + (f": {', '.join(named[:6])}" if named else "")


def _targets(dataset: PackedDataset, pre: Preprocessing | None) -> list[str]:
    if dataset.level == "link":
        return []
    name = " ".join(["Target", *([repr(", ".join(pre.targets))] if pre is not None and pre.targets else [])])
    known = torch.ones(dataset.y.size(0), dtype=torch.bool)
    if dataset.level == "node" and dataset.train_mask is not None:
        masks = [mask for key in MASKS if (mask := getattr(dataset, key)) is not None]
        known = torch.stack(masks).any(0).any(1)
    y = dataset.y[known]
    missing = int((~known).sum())
    tail = f"; {counted(missing, 'node')} without a target or fold" if missing else ""
    if lacking := int(y.isnan().sum()):
        tail = f"; {percent(lacking, y.numel())} of the targets are missing{tail}"
    if dataset.task == "regression":
        rows = y.double().view(y.size(0), -1)
        if pre is not None and (pre.target_mean, pre.target_scale) != (0.0, 1.0):
            rows = pre.in_own_unit(rows)
            own = "the mean of each, divided by its deviation"
            if isinstance(pre.target_mean, float) and isinstance(pre.target_scale, float):
                own = f"{pre.target_mean:.4g}, divided by {pre.target_scale:.4g}"
            tail = f"; trained minus {own}{tail}"
        rows = rows[~rows.isnan()]
        numbers = f"{rows.min():.4g} to {rows.max():.4g}, mean {rows.mean():.4g}, deviation {rows.std():.4g}"
        return [f"{name}: {numbers}{tail}."]
    if dataset.task == "multilabel":
        having, there = y.double().nansum(0), (~y.isnan()).sum(0)
        shares = having / there.clamp(min=1)
        low, high = (percent(int(having[at]), int(there[at])) for at in (int(shares.argmin()), int(shares.argmax())))
        among = f"{len(y):,}" if not lacking else f"the {dataset.level}s where it is known"
        return [f"{name}: {counted(shares.numel(), 'label')}, each on {low} to {high} of {among}{tail}."]
    counts = y.long().view(-1).bincount(minlength=2).tolist()
    names = list(pre.classes) if pre is not None and pre.classes else [str(number) for number in range(len(counts))]
    shown = [f"{each} {count:,} ({percent(count, len(y))})" for each, count in zip(names, counts, strict=False)]
    more = f", and {counted(len(shown) - _MOST_CLASSES_SHOWN, 'more class', 'more classes')}"
    listed = ", ".join(shown[:_MOST_CLASSES_SHOWN]) + (more if len(shown) > _MOST_CLASSES_SHOWN else "")
    return [f"{name}: {listed}{tail}."]


def _folds(dataset: PackedDataset) -> str:
    if dataset.level == "node" and dataset.train_mask is not None:
        masks = [mask for key in MASKS if (mask := getattr(dataset, key)) is not None]
        sizes = [int(mask[:, 0].sum()) for mask in masks]
        times = f", and {counted(dataset.train_mask.size(1) - 1, 'more division')}"
        more = times if dataset.train_mask.size(1) > 1 else ""
    else:
        sizes, more = [dataset.subset(name).numel() for name in SPLITS], ""
    what = {"graph": "graphs", "node": "nodes", "link": "pairs"}[dataset.level]
    return f"Folds: {' / '.join(f'{size:,}' for size in sizes)} {what} for training, validation and test{more}."


def _edges(dataset: PackedDataset) -> str:
    offset = dataset.node_ptr[:-1].repeat_interleave(dataset.edge_ptr.diff())
    ends = dataset.edge_index.long() + offset
    count = dataset.x.size(0)
    isolated = count - int(torch.bincount(ends.reshape(-1), minlength=count).gt(0).sum())
    loops = int((ends[0] == ends[1]).sum())
    twice = ends.size(1) - torch.unique(ends[0] * count + ends[1]).numel()
    return f"Isolated nodes: {isolated:,}; self-loops: {loops:,}; parallel edges: {twice:,}."


def _leak_by_neighbours(dataset: PackedDataset) -> str:
    """A warning if test nodes can be looked up by their neighbours."""
    if dataset.level != "node" or dataset.task not in ("binary", "multiclass") or len(dataset) != 1:
        return ""
    classes = replace(dataset, task="multiclass", y=dataset.y.view(-1).long(), num_classes=dataset.num_classes or 2)
    audit = leak_audit(classes)
    if not audit.lookup - audit.majority > _LEAK:  # NaN without test nodes
        return ""
    return (
        f"{100 * audit.matched:.0f} % of the test nodes have the same neighbours as a training node, and a look-up of "
        f"their classes is right for {100 * audit.lookup:.0f} % where the commonest class is for "
        f"{100 * audit.majority:.0f} %: duplicates leak between folds."
    )


def _leak_by_copies(dataset: PackedDataset) -> str:
    """A warning if test graphs are also training graphs."""
    if dataset.level != "graph":
        return ""
    prints = _fingerprints(dataset)
    train = {prints[number] for number in dataset.subset("train").tolist()}
    test = dataset.subset("test").tolist()
    copies = sum(prints[number] in train for number in test)
    if not copies:
        return ""
    return f"{copies:,} of {len(test):,} test graphs ({percent(copies, len(test))}) are in training as well."


def _fingerprints(dataset: PackedDataset) -> list[bytes]:
    """A hash of each graph's arrays; it depends on the order of the nodes."""
    x, edges = dataset.x.numpy(), np.ascontiguousarray(dataset.edge_index.numpy().T)
    attributes = [each.numpy() for each in (dataset.edge_attr, dataset.edge_weight) if each is not None]
    nodes, links = dataset.node_ptr.tolist(), dataset.edge_ptr.tolist()
    found = []
    for number in range(len(dataset)):
        at = slice(links[number], links[number + 1])
        total = hashlib.blake2b(x[nodes[number] : nodes[number + 1]].tobytes(), digest_size=16)
        total.update(edges[at].tobytes())
        for attr in attributes:
            total.update(attr[at].tobytes())
        found.append(total.digest())
    return found
