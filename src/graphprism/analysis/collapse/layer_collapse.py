"""One call of one convolution, in numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerCollapse:
    """One row of a `CollapseReport`: the output of one call of one convolution.

    Metrics are means over the graphs of a batch, or values of the whole matrix. They are NaN where they do not exist.

    Attributes:
        layer: Position among all calls, from 1.
        name: Name of the module inside the model.
        kind: Class of the module.
        shape: Number of nodes and of channels.
        state: ``"ok"``, ``"zero collapse"`` (every entry is zero), ``"not finite"`` (NaN or infinity inside) or
            ``"empty"`` (no entries).
        zero_graphs: Graphs whose states are all zero; they have no rank-one distance and no effective rank.
        possible_rank: The largest rank that the shape allows. Where it is 1, a rank of one means nothing.
        rank_one_distance: See `rank_one_distance`; over graphs of at least two nodes where there are any.
        effective_rank: See `effective_rank`; over the same graphs.
        numerical_rank: See `numerical_rank`.
        dirichlet_energy: See `dirichlet_energy`, unnormalised; all three on the unweighted edges of the data.
        dirichlet_energy_sym: The same, symmetric.
        dirichlet_energy_rw: The same, random walk.
        frobenius_norm: The square root of the sum of squares.
        output_gradient: Norm of the gradient of the loss with respect to this output; None without a loss, or where
            the loss does not depend on it.
        parameter_gradient: Norm of the gradient with respect to the trainable parameters of the module, summed over
            all its calls; None without a loss or without such parameters.
    """

    layer: int
    name: str
    kind: str
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
    output_gradient: float | None = None
    parameter_gradient: float | None = None
