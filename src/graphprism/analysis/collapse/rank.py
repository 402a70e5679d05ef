"""Rank of node states: effective rank, numerical rank, rank-one distance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from graphprism._checks import (
    check_choice,
    check_floating,
    check_integer,
    check_range,
    check_same_device,
    check_shape,
    check_share,
)

# Rows per chunk: a tall matrix is factorised in chunks, without a float64 copy of the whole.
_PIECE = 16384


@dataclass(frozen=True)
class ThinFactor:
    r"""Factors :math:`\mathbf{X}_b = s_b \mathbf{Q}_b \mathbf{C}_b` of B matrices of shape (n, k), n >= k, in float64.

    :math:`\mathbf{Q}_b` has orthonormal columns and is never formed: singular values and products with columns of
    :math:`\mathbf{X}_b` need :math:`\mathbf{C}_b` alone. The scale :math:`s_b` is the largest magnitude in
    :math:`\mathbf{X}_b`, so that no square over- or underflows. Wide matrices are transposed first.

    Shapes: ``core`` (B, m, k) with k <= m <= n, ``scale`` (B,), ``longest_row`` (B, k): the row of
    :math:`\mathbf{X}_b / s_b` of largest norm, ``longest_column`` (B,): the number of the column of largest norm.
    """

    core: Tensor
    scale: Tensor
    longest_row: Tensor
    longest_column: Tensor
    shape: tuple[int, int]
    eps: float

    @cached_property
    def singular_values(self) -> Tensor:
        """Singular values of the scaled matrices, (B, k), descending."""
        return singular_values(self.core)


def singular_values(matrices: Tensor) -> Tensor:
    """Singular values of (B, m, k) small matrices, (B, k), on the device of the matrices."""
    # On the CPU even for GPU tensors, as CUDA processes them one by one: 12,000 graphs 0.5 s instead of 3.3 s (H200).
    values: Tensor = torch.linalg.svdvals(matrices.cpu())
    return values.to(matrices.device)


def thin_factor(x: Tensor, order: int = 2) -> ThinFactor:
    """Factorises (B, n, F) finite, nonzero matrices of any floating-point type, none of them empty.

    The longest row and column are those of the largest norm of this ``order``: 1 or 2.
    """
    tall = x if x.size(1) >= x.size(2) else x.mT
    low, high = x.flatten(1).aminmax(dim=1)
    scale = torch.maximum(low.double().abs(), high.double().abs())
    core, row_norms, column_norms = _reduce(tall, scale[:, None, None], order)
    longest = row_norms.argmax(dim=1)[:, None, None].expand(-1, 1, tall.size(2))
    longest_row = tall.gather(1, longest).squeeze(1).double() / scale[:, None]
    longest_column = column_norms.argmax(dim=1)
    return ThinFactor(core, scale, longest_row, longest_column, (x.size(1), x.size(2)), torch.finfo(x.dtype).eps)


def _reduce(tall: Tensor, scale: Tensor, order: int) -> tuple[Tensor, Tensor, Tensor]:
    """Factorises the rows in chunks, then the stacked triangles: as stable as one factorisation of the whole.

    Also returns the norms of rows and of columns.
    """
    cores, rows, columns = [], [], []
    for piece in torch.split(tall, max(_PIECE, 4 * tall.size(2)), dim=1):
        scaled = piece.double() / scale
        rows.append(torch.linalg.vector_norm(scaled, ord=order, dim=2))
        if order == 1:
            columns.append(scaled.abs().sum(dim=1))
        cores.append(_triangle(scaled))
    core = torch.cat(cores, dim=1)
    core = core if len(cores) == 1 else _triangle(core)
    # columns of the core have the same norms
    column_norms = torch.stack(columns).sum(dim=0) if columns else torch.linalg.vector_norm(core, dim=1)
    return core, torch.cat(rows, dim=1), column_norms


def _triangle(x: Tensor) -> Tensor:
    # Below a ratio of two QR costs more than it saves in the SVD that follows.
    return x if x.size(1) <= 2 * x.size(2) else torch.linalg.qr(x, mode="r").R


# Matrix entries per batch of factorisations: 128 MB in float64.
_ENTRIES = 2**24


def per_graph(
    metric: Callable[[ThinFactor], Tensor],
    x: Tensor,
    batch: Tensor | None,
    zero: Sequence[float] = (float("nan"),),
    order: int = 2,
) -> Tensor:
    """Applies ``metric`` to the rows of every graph; () or (G,) values, with a trailing dimension if it gives several.

    Graphs that hold NaN or infinity get NaN. Graphs of zeros, and those without entries, get ``zero``: one number per
    output of ``metric``. The ``order`` is that of `thin_factor`.
    """
    check_features(x, batch)
    columns = len(zero)
    values = torch.tensor([zero], dtype=torch.float64, device=x.device).repeat(num_graphs(batch), 1)
    for graphs, block in blocks(x.detach(), batch):
        finite, nonzero = block_state(block)
        values[graphs[~finite]] = float("nan")
        chosen = finite & nonzero
        if bool(chosen.any()):
            result = metric(thin_factor(block if bool(chosen.all()) else block[chosen], order))
            values[graphs[chosen]] = result.reshape(-1, columns).to(torch.float64)
    values = values.squeeze(1) if columns == 1 else values
    return values[0] if batch is None else values


def check_features(x: Tensor, batch: Tensor | None) -> None:
    """Raises unless ``x`` is an (N, F) floating-point matrix and ``batch`` an (N,) vector of graph numbers."""
    check_shape("x", x, ["N", "F"])
    check_floating("x", x)
    if batch is not None:
        check_shape("batch", batch, [x.size(0)])
        check_integer("batch", batch)
        check_same_device("batch", batch, "x", x)
        check_range("batch", batch, None)


def num_graphs(batch: Tensor | None) -> int:
    """One without ``batch``, else the largest graph number plus one."""
    if batch is None:
        return 1
    return int(batch.max()) + 1 if batch.numel() else 0


def blocks(x: Tensor, batch: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields graph numbers (B,) and their rows (B, n, F), grouped by graph size; skips empty graphs."""
    if x.numel() == 0:
        return
    if batch is None:
        yield torch.zeros(1, dtype=torch.int64, device=x.device), x[None]
        return
    order = torch.argsort(batch, stable=True)
    sizes = torch.bincount(batch)
    starts = sizes.cumsum(0) - sizes
    for size in torch.unique(sizes[sizes > 0]).tolist():
        graphs = (sizes == size).nonzero().squeeze(1)
        for part in torch.split(graphs, max(1, _ENTRIES // (size * x.size(1)))):
            rows = starts[part, None] + torch.arange(size, device=x.device)
            yield part, x[order[rows]]


def block_state(block: Tensor) -> tuple[Tensor, Tensor]:
    """Two (B,) masks of the matrices (B, n, F): finite, and finite but not all zero."""
    low, high = block.flatten(1).aminmax(dim=1)
    return low.isfinite() & high.isfinite(), (low != 0) | (high != 0)


def effective_rank(x: Tensor, batch: Tensor | None = None) -> Tensor:
    r"""Effective rank: the exponential of the entropy of the singular values (Roy and Vetterli, 2007).

    .. math:: \mathrm{erank}(\mathbf{X}) = \exp\Bigl(-\sum_k p_k \log p_k\Bigr), \qquad
              p_k = \frac{\sigma_k}{\sum_l \sigma_l}

    where :math:`\sigma_k` are the singular values of :math:`\mathbf{X}`. It lies between 1 (rank one) and the rank
    (all nonzero singular values equal), and depends neither on the scale of ``x`` nor on a rotation of the channels.
    Computed in float64. NaN if undefined: for zeros only, for NaN or infinity inside, and without entries.

    Shapes: ``x`` (N, F), ``batch`` (N,) -> () without ``batch``, (G,) with it: one value per graph

    Example:
        >>> import torch
        >>> effective_rank(torch.eye(4)).round(decimals=6)
        tensor(4., dtype=torch.float64)
    """
    return per_graph(exponential_entropy, x, batch)


def exponential_entropy(factor: ThinFactor) -> Tensor:
    """Effective rank of every matrix of the factor, (B,)."""
    values = factor.singular_values
    share = values / values.sum(dim=1, keepdim=True)
    entropy: Tensor = torch.special.entr(share).sum(dim=1)
    return entropy.exp()


def numerical_rank(x: Tensor, batch: Tensor | None = None, relative_tolerance: float | None = None) -> Tensor:
    r"""Number of singular values above ``relative_tolerance`` times the largest one.

    The default tolerance is :math:`\max(N, F) \cdot \epsilon`, where :math:`\epsilon` is the machine epsilon of the
    dtype of ``x`` and N the number of nodes (of the graph): the size of rounding errors in that dtype. It is at most
    :math:`\sqrt{\epsilon}`, else no singular value of a large bfloat16 matrix would count.

    The singular values are computed in float64. The rank of zeros, and of no entries, is 0. It is NaN if ``x`` holds
    NaN or infinity, which is why the result is not of an integer type.

    Shapes: ``x`` (N, F), ``batch`` (N,) -> () without ``batch``, (G,) with it: one value per graph

    Example:
        >>> import torch
        >>> numerical_rank(torch.tensor([[1.0, 2.0], [2.0, 4.0], [0.0, 0.0]]))
        tensor(1., dtype=torch.float64)
    """
    if relative_tolerance is not None:
        check_share("relative_tolerance", relative_tolerance, below_one=True)
    return per_graph(partial(count_above, relative_tolerance=relative_tolerance), x, batch, zero=(0.0,))


def count_above(factor: ThinFactor, relative_tolerance: float | None = None) -> Tensor:
    """Numerical rank of every matrix of the factor, (B,)."""
    if relative_tolerance is None:
        relative_tolerance = min(max(factor.shape) * factor.eps, factor.eps**0.5)
    values = factor.singular_values
    return (values > relative_tolerance * values[:, :1]).sum(dim=1)


# Orders of the norms that choose the row and the column of the rank-one distance.
CHOSEN_BY = {"l2": 2, "l1": 1}


def rank_one_distance(x: Tensor, batch: Tensor | None = None, *, chosen_by: str = "l2") -> Tensor:
    r"""Rank-one distance (ROD) of the node states, in [0, 2): zero exactly if all nodes carry multiples of one signal.

    .. math:: \mathrm{ROD}(\mathbf{X}) = \left\| \frac{\mathbf{X}}{\|\mathbf{X}\|_*}
              - \sigma \frac{\mathbf{u}\mathbf{v}^\top}{\|\mathbf{u}\mathbf{v}^\top\|_*} \right\|_*

    where :math:`\|\cdot\|_*` is the nuclear norm (the sum of the singular values), :math:`\mathbf{u}` the column and
    :math:`\mathbf{v}` the row of :math:`\mathbf{X}` with the largest Euclidean norm (the first of equals), and
    :math:`\sigma` the sign of :math:`\langle \mathbf{X}, \mathbf{u}\mathbf{v}^\top \rangle`. With ``chosen_by="l1"``
    it is the column and the row with the largest sum of magnitudes, as in the script of the paper's authors.

    The value does not depend on the scale of ``x``. It is computed in float64 whatever the type of ``x``, to within
    about 1e-15 times the square root of the smaller dimension. It is NaN if undefined: for a matrix of zeros, for one
    that holds NaN or infinity and for one without entries.

    Shapes: ``x`` (N, F), ``batch`` (N,) -> () without ``batch``, (G,) with it: one value per graph

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 2.0], [2.0, 4.0], [1.0, 0.0], [0.0, 1.0]])
        >>> rank_one_distance(x, torch.tensor([0, 0, 1, 1])).round(decimals=6)
        tensor([0., 1.], dtype=torch.float64)
    """
    check_choice("chosen_by", chosen_by, CHOSEN_BY)
    return per_graph(distance, x, batch, order=CHOSEN_BY[chosen_by])


def distance(factor: ThinFactor) -> Tensor:
    r"""ROD of every matrix of the factor, (B,).

    With :math:`\mathbf{X} = \mathbf{Q}\mathbf{C}` the column is :math:`\mathbf{u} = \mathbf{Q}\mathbf{c}`, where
    :math:`\mathbf{c}` is a column of :math:`\mathbf{C}`: the difference has the singular values of a small matrix.
    """
    core, row, longest = factor.core, factor.longest_row, factor.longest_column
    column = core.gather(2, longest[:, None, None].expand(-1, core.size(1), 1)).squeeze(2)
    direction = _unit(column)[:, :, None] * _unit(row)[:, None, :]
    sign = torch.where((core * direction).sum(dim=(1, 2)) < 0, -1.0, 1.0)[:, None, None]
    nuclear = factor.singular_values.sum(dim=1)[:, None, None]
    return singular_values(core / nuclear - sign * direction).sum(dim=1)


def _unit(vector: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(vector, dim=1, keepdim=True)
    return vector / length
