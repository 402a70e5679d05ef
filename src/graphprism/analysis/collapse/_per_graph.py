"""One value per graph of a batch, computed for all graphs of one size at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from graphprism._checks import check_floating, check_integer, check_range, check_same_device, check_shape
from graphprism.analysis.collapse._thin_factor import ThinFactor, thin_factor

# Entries of the matrices that are factorised at once: 128 MB in float64.
_ENTRIES = 2**24


def per_graph(
    metric: Callable[[ThinFactor], Tensor],
    x: Tensor,
    batch: Tensor | None,
    zero: Sequence[float] = (float("nan"),),
) -> Tensor:
    """Applies ``metric`` to the rows of every graph; () or (G,) values, with a trailing dimension if it gives several.

    Graphs that hold NaN or infinity get NaN. Graphs of zeros, and those without entries, get ``zero``: as many numbers
    as ``metric`` gives.
    """
    check_features(x, batch)
    columns = len(zero)
    values = torch.tensor([zero], dtype=torch.float64, device=x.device).repeat(num_graphs(batch), 1)
    for graphs, block in blocks(x.detach(), batch):
        finite, nonzero = block_state(block)
        values[graphs[~finite]] = float("nan")
        chosen = finite & nonzero
        if bool(chosen.any()):
            result = metric(thin_factor(block if bool(chosen.all()) else block[chosen]))
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
    """Yields graph numbers (B,) and their rows (B, n, F), graphs of one size together; empty graphs are left out."""
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
    """Which matrices of (B, n, F) are finite, and which of them hold anything but zeros: two (B,) masks."""
    low, high = block.flatten(1).aminmax(dim=1)
    return low.isfinite() & high.isfinite(), (low != 0) | (high != 0)
