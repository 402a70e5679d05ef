"""Groups of parallel rows, structurally independent pairs, and structural rank of a matrix of in-degrees."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphprism._checks import check_integer, check_no_nan, check_range, check_shape, check_share, check_whole

DIRECTION_TOLERANCE = 1e-9
# float64 represents every whole number up to this one, and sums below it are exact.
_LARGEST_EXACT = 2.0**53

_Floats = npt.NDArray[np.float64]
_Integers = npt.NDArray[np.int64]


def direction_groups(
    in_degrees: Tensor, batch: Tensor | None = None, *, tolerance: float = DIRECTION_TOLERANCE
) -> Tensor:
    r"""Numbers the directions of the rows, graph by graph: two rows share a number iff they are linearly dependent.

    Rows that are parallel or antiparallel get the same number if they are of the same graph; rows of zeros get -1.

    Whole numbers are compared exactly, in a canonical form: a row divided by the greatest common divisor of its
    entries, with its first nonzero entry positive. Other rows are compared through the entries of

    .. math:: P(\mathbf{d}) = \mathbf{d} \mathbf{d}^\top / \lVert \mathbf{d} \rVert^2,

    which depend continuously on the direction alone, so that rounding cannot separate equal directions: rows whose
    entries of :math:`P` differ by at most ``tolerance`` are *always* in one group, and so are rows joined by a chain of
    such neighbours. Groups may thus be too large, never too small: a certificate claims too little rather than too
    much.

    Shapes: ``in_degrees`` (N, R), ``batch`` (N,) -> (N,) long. Time: a few sorts of N rows.

    >>> direction_groups(torch.tensor([[4.0, 2.0], [2.0, 1.0], [3.0, 2.0], [0.0, 0.0], [-2.0, -1.0]])).tolist()
    [0, 0, 1, -1, 0]
    """
    check_shape("in_degrees", in_degrees, ["N", "R"])
    check_no_nan("in_degrees", in_degrees)
    check_share("tolerance", tolerance, below_one=True)
    if batch is not None:
        batch, _ = checked_batch(batch, in_degrees.size(0), None)
    rows = in_degrees.detach().cpu().double().numpy()
    kept = np.flatnonzero(rows.any(axis=1))
    graphs = np.zeros(kept.size, np.int64) if batch is None else batch.detach().cpu().long().numpy()[kept]
    groups = np.full(len(rows), -1, np.int64)
    if kept.size:
        groups[kept] = _by_first_appearance(_number_directions(rows[kept], graphs, tolerance))
    return torch.from_numpy(groups)


def _number_directions(rows: _Floats, graphs: _Integers, tolerance: float) -> _Integers:
    if bool((np.abs(rows) < _LARGEST_EXACT).all()) and bool((rows == np.rint(rows)).all()):
        return _number_exactly([graphs, *_primitive(rows.astype(np.int64)).T])
    scaled = rows / np.abs(rows).max(axis=1, keepdims=True)
    # Many nodes usually share few directions: compare each bit pattern once.
    pattern = _number_exactly([graphs, *scaled.T.copy().view(np.int64)])
    first = first_rows(pattern)
    return _number_neighbours(scaled[first], graphs[first], tolerance)[pattern]


def _primitive(rows: _Integers) -> _Integers:
    """The shortest integer vector parallel to each row, with its first nonzero entry positive."""
    divisor = np.gcd.reduce(rows, axis=1)
    leading = np.take_along_axis(rows, (rows != 0).argmax(axis=1, keepdims=True), axis=1)[:, 0]
    primitive: _Integers = rows // (divisor * np.sign(leading))[:, None]
    return primitive


def _number_exactly(columns: list[_Integers]) -> _Integers:
    """Numbers the distinct rows of a table; rows are packed into one 64-bit key if the column ranges allow it."""
    key, size = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        low, high = (int(column.min()), int(column.max()))
        span = high - low + 1
        if size * span >= 1 << 62:
            key, size = _compressed(key)
        if size * span >= 1 << 62:
            column, span = _compressed(column)
            low = 0
        key, size = key * span + (column - low), size * span
    return _compressed(key)[0]


def _compressed(key: _Integers) -> tuple[_Integers, int]:
    values, numbers = np.unique(key, return_inverse=True)
    return numbers.reshape(-1).astype(np.int64), max(1, values.size)


def _number_neighbours(rows: _Floats, graphs: _Integers, tolerance: float) -> _Integers:
    """Divides the rows of a graph at gaps in the sorted values of each entry of P, until no entry has a gap."""
    groups, count = _compressed(graphs)
    while True:
        # Groups of one are done: of 10^4 different rows few need more than a few passes.
        shared = np.flatnonzero(np.bincount(groups)[groups] > 1)
        groups[shared] = count + _split_by_entries(rows[shared], groups[shared], tolerance)
        previous = count
        groups, count = _compressed(groups)
        if count == previous:
            return groups


def _split_by_entries(rows: _Floats, groups: _Integers, tolerance: float) -> _Integers:
    """One pass over the entries of P on rows of groups of two or more; drops rows once they are alone."""
    result, kept, groups = np.empty_like(groups), np.arange(len(rows)), _compressed(groups)[0]
    squared_norm, numbered = np.einsum("nr,nr->n", rows, rows), 0
    # The order of the entries does not affect the result: rows joined by chains in every entry stay together in each.
    # The R diagonal entries come first, as they leave few rows for the others.
    for first, seconds in _entries(rows.shape[1]):
        if kept.size == 0:
            break
        # An entry that is 0 in all rows separates nothing; with many relations most are.
        occurring = (rows[kept[rows[kept, first] != 0], seconds] != 0).any(axis=0)
        for second in np.arange(rows.shape[1])[seconds][occurring]:
            column = rows[kept, first] * rows[kept, second] / squared_norm[kept]
            groups = _split_at_gaps(groups, column, tolerance)
        single = np.bincount(groups)[groups] == 1
        result[kept[single]] = numbered + np.arange(np.count_nonzero(single))
        numbered += int(np.count_nonzero(single))
        kept, groups = kept[~single], _compressed(groups[~single])[0]
    result[kept] = numbered + groups
    return result


def _entries(size: int) -> Iterator[tuple[int, slice]]:
    """Entries (row, columns) of the upper triangle of a square matrix, those of the diagonal first."""
    yield from ((first, slice(first, first + 1)) for first in range(size))
    yield from ((first, slice(first + 1, size)) for first in range(size))


def _split_at_gaps(groups: _Integers, column: _Floats, tolerance: float) -> _Integers:
    sizes = np.bincount(groups)
    shared = np.flatnonzero(sizes[groups] > 1)  # groups of one are done: 3M different rows are sorted once
    order = shared[np.lexsort((column[shared], groups[shared]))]
    if order.size == 0:
        return groups
    split, old = groups.copy(), groups[order]
    starts = (old[1:] != old[:-1]) | (np.diff(column[order]) > tolerance)
    split[order] = sizes.size + np.concatenate([[0], np.cumsum(starts)])
    return split


def first_rows(groups: _Integers) -> _Integers:
    """Number of the first row of each group, for groups numbered from 0 without gaps."""
    first = np.empty(int(groups.max(initial=-1)) + 1, np.int64)
    first[groups[::-1]] = np.arange(groups.size)[::-1]  # for repeated indices the last write wins
    return first


def _by_first_appearance(groups: _Integers) -> _Integers:
    """Renumbers groups so that a group with an earlier first row has the smaller number."""
    first = first_rows(groups)
    rank = np.empty_like(first)
    rank[np.argsort(first)] = np.arange(first.size)
    return rank[groups]


def independent_pairs(
    in_degrees: Tensor,
    batch: Tensor | None = None,
    num_graphs: int | None = None,
    *,
    tolerance: float = DIRECTION_TOLERANCE,
) -> tuple[Tensor, Tensor]:
    r"""Counts, for each graph, the structurally independent pairs of its nodes and all pairs of its nodes.

    Two nodes are structurally independent if their vectors of weighted in-degrees are linearly independent. With
    :math:`m` vectors that are not zero and groups of :math:`s_1, s_2, \dots` vectors of one direction
    (`direction_groups`) that is

    .. math:: \binom{m}{2} - \sum_g \binom{s_g}{2} \quad \text{of} \quad \binom{n}{2} \text{ pairs}

    without enumerating pairs. Nodes of different graphs are not paired.

    Shapes: ``in_degrees`` (N, R), ``batch`` (N,) -> (G,) long and (G,) long

    >>> independent, pairs = independent_pairs(torch.tensor([[4.0, 2.0], [2.0, 1.0], [3.0, 2.0], [2.0, 1.0]]))
    >>> independent.item(), pairs.item()
    (3, 6)
    """
    check_shape("in_degrees", in_degrees, ["N", "R"])
    batch, num_graphs = checked_batch(batch, in_degrees.size(0), num_graphs)
    return count_pairs(direction_groups(in_degrees, batch, tolerance=tolerance), batch, num_graphs)


def checked_batch(batch: Tensor | None, num_nodes: int, num_graphs: int | None) -> tuple[Tensor, int]:
    """The number of the graph of each node, and the number of graphs; without ``batch`` all nodes are one graph."""
    if num_graphs is not None:
        check_whole("num_graphs", num_graphs)
    if batch is None:
        return torch.zeros(num_nodes, dtype=torch.long), 1 if num_graphs is None else num_graphs
    check_shape("batch", batch, [num_nodes])
    check_integer("batch", batch)
    batch = batch.detach().cpu().long()
    if num_graphs is None:
        num_graphs = int(batch.max()) + 1 if num_nodes else 0
    check_range("batch", batch, num_graphs)
    return batch, num_graphs


def count_pairs(groups: Tensor, batch: Tensor, num_graphs: int) -> tuple[Tensor, Tensor]:
    """`independent_pairs` from the groups of `direction_groups`."""
    graph_of_row, groups = batch[groups >= 0], groups[groups >= 0]
    group_sizes = torch.bincount(groups)
    graph_of_group = torch.zeros_like(group_sizes).scatter_(0, groups, graph_of_row)
    of_one_direction = torch.zeros(num_graphs, dtype=torch.long).index_add_(0, graph_of_group, _pairs(group_sizes))
    not_zero = torch.bincount(graph_of_row, minlength=num_graphs)
    return _pairs(not_zero) - of_one_direction, _pairs(torch.bincount(batch, minlength=num_graphs))


def _pairs(count: Tensor) -> Tensor:
    return count * (count - 1) // 2


def independent_witness(groups: Tensor, batch: Tensor | None = None) -> tuple[int, int] | None:
    """Two structurally independent nodes of one graph, or None if there are none.

    Of the first graph that has any: the first nodes of its two largest groups of one direction, the larger group first,
    and the group of the earlier node first where sizes are equal.

    Args:
        groups: Result of `direction_groups`, (N,).
        batch: Number of the graph of each node, (N,); None for one graph.

    >>> import torch
    >>> independent_witness(torch.tensor([-1, 0, 1, 1]))
    (2, 1)
    """
    numbers = groups.numpy()
    nodes = np.flatnonzero(numbers >= 0)
    if nodes.size == 0:
        return None
    numbers = numbers[nodes]
    first = nodes[first_rows(numbers)]  # (groups,)
    graph_of_group = np.zeros(first.size, np.int64) if batch is None else batch.numpy()[first]
    with_pairs = np.flatnonzero(np.bincount(graph_of_group) > 1)
    if with_pairs.size == 0:
        return None
    candidates = np.flatnonzero(graph_of_group == with_pairs[0])
    order = np.lexsort((first[candidates], -np.bincount(numbers)[candidates]))
    larger, smaller = (int(node) for node in first[candidates[order[:2]]])
    return larger, smaller


RANK_TOLERANCE = 1e-9


def structural_rank(
    in_degrees: Tensor,
    batch: Tensor | None = None,
    num_graphs: int | None = None,
    *,
    tolerance: float = RANK_TOLERANCE,
) -> Tensor:
    r"""Rank of the weighted in-degrees :math:`\mathbf{E} \in \mathbb{R}^{n \times R}` of each graph.

    Every row is scaled to norm 1, which does not change the rank. Then the longest row of each graph becomes the next
    basis vector and is projected out of all rows of that graph, until no row is longer than ``tolerance``: a QR
    factorisation with pivoting, for all graphs at once. A row at a distance below ``tolerance`` from the span counts as
    inside, so that the result may be too small but is not too large.

    Shapes: ``in_degrees`` (N, R), ``batch`` (N,) -> (G,) long. Time: O(N R^2).

    >>> structural_rank(torch.tensor([[4.0, 2.0], [2.0, 1.0], [3.0, 2.0], [2.0, 1.0]])).item()
    2
    """
    check_shape("in_degrees", in_degrees, ["N", "R"])
    check_no_nan("in_degrees", in_degrees)
    check_share("tolerance", tolerance, below_one=True)
    batch, num_graphs = checked_batch(batch, in_degrees.size(0), num_graphs)
    rows = _unit_rows(in_degrees.detach().cpu().double())
    rows = rows[:, (rows != 0).any(dim=0)]  # drop empty relations
    size = torch.bincount(batch, minlength=num_graphs)
    large = (size.clamp(max=rows.size(1)) > _LARGEST_RANK_TOGETHER).nonzero().flatten().tolist()
    together = torch.ones(num_graphs, dtype=torch.bool)
    together[large] = False
    kept = together[batch]
    rank = _ranks_together(rows[kept], batch[kept], num_graphs, tolerance)
    for graph in large:
        rank[graph] = _rank_of_one(rows[batch == graph], tolerance)
    return rank


# Graphs whose size allows a larger rank are processed one at a time: a basis vector is projected out of a block of rows
# immediately, and out of all other rows together with the rest of its block, by a matrix product.
_LARGEST_RANK_TOGETHER = 32
_BLOCK = 64


def _ranks_together(rows: Tensor, batch: Tensor, num_graphs: int, tolerance: float) -> Tensor:
    """Rank of each graph, one basis vector of every graph at a time."""
    rank = torch.zeros(num_graphs, dtype=torch.long)
    for _ in range(rows.size(1)):
        length = rows.norm(dim=1)
        pivot = _longest_row(length, batch, num_graphs, tolerance)
        found = pivot >= 0
        if not bool(found.any()):
            break
        rank += found
        basis = torch.zeros(num_graphs, rows.size(1), dtype=torch.float64)
        basis[found] = rows[pivot[found]] / length[pivot[found], None]
        basis = basis[batch]
        rows = rows - (rows * basis).sum(dim=1, keepdim=True) * basis
    return rank


def _rank_of_one(rows: Tensor, tolerance: float) -> int:
    num_rows, full = rows.shape
    # A sample of rows often has full rank already if there are many more nodes than relations.
    if num_rows > 4 * full and _rank_in_blocks(rows[:: num_rows // (2 * full)], tolerance) == full:
        return full
    return _rank_in_blocks(rows, tolerance)


def _rank_in_blocks(rows: Tensor, tolerance: float) -> int:
    """Rank of one graph, by blocks of basis vectors from the longest rows."""
    rank = 0
    while rank < rows.size(1):
        length = rows.norm(dim=1)
        rows, length = rows[length > tolerance], length[length > tolerance]
        if length.numel() == 0:
            break
        candidates = rows[length.topk(min(4 * _BLOCK, length.numel())).indices]
        basis = _basis(candidates, min(_BLOCK, rows.size(1) - rank), tolerance)
        rank += basis.size(0)
        rows = rows - (rows @ basis.T) @ basis
    return rank


def _basis(rows: Tensor, most: int, tolerance: float) -> Tensor:
    """Up to ``most`` orthonormal vectors by pivoted Gram-Schmidt: the longest remaining row each time."""
    basis: list[Tensor] = []
    shortest = tolerance
    while len(basis) < most:
        length = rows.norm(dim=1)
        longest = int(length.argmax())
        if float(length[longest]) <= shortest:
            break
        # Much shorter rows wait for the next block: rows outside may be longer, and rounding is relative to the first.
        shortest = max(shortest, float(length[longest]) / 10) if not basis else shortest
        basis.append(rows[longest] / length[longest])
        rows = torch.addr(rows, rows @ basis[-1], basis[-1], alpha=-1)
    return torch.stack(basis)


def _unit_rows(rows: Tensor) -> Tensor:
    largest = rows.abs().amax(dim=1, keepdim=True) if rows.size(1) else rows.sum(dim=1, keepdim=True)
    rows = rows / torch.where(largest > 0, largest, 1.0)  # first by the largest entry, so that squares do not overflow
    length = rows.norm(dim=1, keepdim=True)
    return rows / torch.where(length > 0, length, 1.0)


def _longest_row(length: Tensor, batch: Tensor, num_graphs: int, tolerance: float) -> Tensor:
    """First of the longest rows of each graph, -1 where no row is longer than ``tolerance``."""
    longest = torch.zeros(num_graphs, dtype=torch.float64).scatter_reduce_(0, batch, length, "amax")
    candidate = ((length == longest[batch]) & (length > tolerance)).nonzero().squeeze(1)
    pivot = torch.full((num_graphs,), -1, dtype=torch.long)
    return pivot.scatter_reduce_(0, batch[candidate], candidate, "amin", include_self=False)
