"""All metrics of one matrix of node states, from one factorisation."""

from __future__ import annotations

import math
from typing import TypedDict

import torch
from torch import Tensor

from graphprism.analysis.collapse.energy import Normalization, dirichlet_energy, four_norms
from graphprism.analysis.collapse.rank import ThinFactor, count_above, distance, exponential_entropy, per_graph


class Measures(TypedDict):
    """The fields of `LayerCollapse` that depend on the states only."""

    shape: tuple[int, int]
    state: str
    zero_graphs: int
    possible_rank: int
    rank_one_distance: float
    effective_rank: float
    numerical_rank: float
    dirichlet_energy: float
    dirichlet_energy_sym: float
    dirichlet_energy_rw: float
    frobenius_norm: float


def measure(x: Tensor, edge_index: Tensor | None, batch: Tensor | None) -> Measures:
    """Metrics of the states (N, F), as means over the graphs of ``batch``; the energies are NaN without edges."""
    sizes = torch.tensor([x.size(0)]) if batch is None else torch.bincount(batch)
    present = (sizes > 0).cpu()
    values = per_graph(_four_metrics, x, batch, zero=(math.nan, math.nan, 0.0, 0.0)).reshape(-1, 4).cpu()[present]
    zero = values[:, 3] == 0
    ranked = _ranked(sizes.cpu()[present], ~zero)
    energy = {kind: _energy(x, edge_index, batch, kind) for kind in ("none", "sym", "rw")}
    return Measures(
        shape=(x.size(0), x.size(1)),
        state=_state(x, values[:, 2].isnan(), zero),
        zero_graphs=int(zero.sum()) if x.numel() else 0,
        possible_rank=min(int(sizes.max()) if sizes.numel() else 0, x.size(1)),
        rank_one_distance=values[ranked, 0].mean().item(),
        effective_rank=values[ranked, 1].mean().item(),
        numerical_rank=values[:, 2].mean().item(),
        dirichlet_energy=energy["none"],
        dirichlet_energy_sym=energy["sym"],
        dirichlet_energy_rw=energy["rw"],
        frobenius_norm=values[:, 3].mean().item(),
    )


def _four_metrics(factor: ThinFactor) -> Tensor:
    rank = count_above(factor).to(torch.float64)
    return torch.stack((distance(factor), exponential_entropy(factor), rank, four_norms(factor)[:, 0]), dim=1)


def _ranked(sizes: Tensor, nonzero: Tensor) -> Tensor:
    """Mask of the graphs over which ranks are averaged: a single node always has rank one."""
    several = nonzero & (sizes > 1)
    return several if bool(several.any()) else nonzero


def _state(x: Tensor, not_finite: Tensor, zero: Tensor) -> str:
    if x.numel() == 0:
        return "empty"
    if bool(not_finite.any()):
        return "not finite"
    return "zero collapse" if bool(zero.all()) else "ok"


def _energy(x: Tensor, edge_index: Tensor | None, batch: Tensor | None, normalization: Normalization) -> float:
    if edge_index is None or x.numel() == 0:
        return math.nan
    energy = dirichlet_energy(x, edge_index, normalization, batch=batch)
    if not bool(x.isfinite().all()) or batch is None:
        return energy.mean().item()
    # Graphs without nodes do not count; graphs without edges have no random walk.
    counted = (torch.bincount(batch) > 0) & ~energy.isnan()
    return energy[counted].mean().item()
