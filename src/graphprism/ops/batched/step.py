"""The parts of a training step of K runs outside of the network: reading the batch, the loss and Adam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from graphprism._checks import check_shape
from graphprism.ops.backends import Backends


def take_row_reference(tensors: Sequence[Tensor], number: Tensor) -> list[Tensor]:
    """The definition, one tensor after another."""
    return [tensor.index_select(0, number)[0] for tensor in tensors]


TAKE_ROW = Backends(reference=take_row_reference, triton="graphprism.ops.kernels.take_row:take_row")


def take_row(tensors: Sequence[Tensor], number: Tensor, *, impl: str | None = None) -> list[Tensor]:
    """Copies of row ``number`` (1,) of each tensor, whatever their shapes and types: (S, ...) -> (...).

    Without autograd and without a host-device sync: the number is not checked. Tensors may be slices of larger ones
    along one dimension.

    >>> take_row([torch.eye(2), torch.tensor([[True], [False]])], torch.tensor([1]))
    [tensor([0., 1.]), tensor([False])]
    """
    check_shape("number", number, [1])
    if not tensors:
        raise ValueError("`tensors` must be one at least, got none")
    found: list[Tensor] = TAKE_ROW.choose(impl, number.device)(tensors, number)
    return found


def absolute_loss_reference(output: Tensor, target: Tensor, share: Tensor, losses: Tensor, turn: Tensor) -> Tensor:
    """The definition, one operation at a time; the gradient of an absolute error is its sign."""
    gap = output.to(share.dtype) - target
    part = share[..., None] / target.size(-1)
    losses.index_copy_(0, turn, (gap.abs() * part).flatten(1).sum(1)[None])
    return (gap.sign() * part).to(output.dtype)


ABSOLUTE_LOSS = Backends(reference=absolute_loss_reference, triton="graphprism.ops.kernels.absolute_loss:absolute_loss")


def absolute_loss(
    output: Tensor, target: Tensor, share: Tensor, losses: Tensor, turn: Tensor, *, impl: str | None = None
) -> Tensor:
    r"""Writes the loss of each run and returns its gradient with respect to ``output``.

    .. math:: \ell_k = \sum_b s_{k,b} \, \frac{1}{T} \sum_t |o_{k,b,t} - y_{k,b,t}|

    Without autograd. No host-device sync.

    Args:
        output: (K, B, T) outputs of K networks for the B graphs of their batches, :math:`o`.
        target: (K, B, T) targets, :math:`y`.
        share: (K, B) weight of each graph, :math:`s`.
        losses: (S, K) receives the losses, in one row.
        turn: (1,) the number of that row.
        impl: A name of `ABSOLUTE_LOSS`.
    """
    check_shape("target", target, list(output.shape))
    check_shape("share", share, list(output.shape[:2]))
    check_shape("losses", losses, ["S", output.size(0)])
    loss = ABSOLUTE_LOSS.choose(impl, output.device)
    found: Tensor = loss(output.detach(), target, share, losses, turn)
    return found


class Coordinates(NamedTuple):
    r"""A piece of weights (outer, R, inner) whose R rows are coordinates :math:`\mathbf{w}_c`.

    The network uses R rows :math:`\mathbf{u}_r` that are computed from them, and the gradient is given for these:

    .. math:: \mathbf{u}_r = \sum_c A_{rc} l_c \mathbf{w}_c, \qquad
        \nabla_{\mathbf{w}_c} = l_c \sum_r A_{rc} \nabla_{\mathbf{u}_r}

    Attributes:
        matrix: :math:`A`, R rows of R numbers. They should be integers, so that gradients that cancel are exactly zero:
            Adam would take a full step along a rounding error.
        lengths: :math:`l`, R numbers.
        inner: size of a row.
    """

    matrix: tuple[tuple[float, ...], ...]
    lengths: tuple[float, ...]
    inner: int

    def used(self, weights: Tensor) -> Tensor:
        """The rows that the network uses, from coordinates (K, outer * R * inner), in the same shape.

        >>> Coordinates(((1, 1), (1, -1)), (1.0, 0.5), inner=1).used(torch.tensor([[3.0, 2.0, 5.0, 0.0]]))
        tensor([[4., 2., 5., 5.]])
        """
        rows = [length * row for length, row in zip(self.lengths, self._rows(weights), strict=True)]
        return self._joined([_sum(line, rows) for line in self.matrix], weights)

    def gradient(self, grads: Tensor) -> Tensor:
        """The gradient of the coordinates from that of the rows that the network uses."""
        rows, columns = self._rows(grads), zip(*self.matrix, strict=True)
        mixed = [length * _sum(column, rows) for length, column in zip(self.lengths, columns, strict=True)]
        return self._joined(mixed, grads)

    def _rows(self, piece: Tensor) -> Sequence[Tensor]:
        return piece.view(piece.size(0), -1, len(self.matrix), self.inner).unbind(2)

    def _joined(self, rows: list[Tensor], piece: Tensor) -> Tensor:
        return torch.stack(rows, dim=2).view(piece.shape)


def _sum(factors: Sequence[float], rows: Sequence[Tensor]) -> Tensor:
    # not a matrix product, which training on a GPU rounds to TF32
    total = factors[0] * rows[0]
    for factor, row in zip(factors[1:], rows[1:], strict=True):
        total = total.add(row, alpha=factor)
    return total


def adam_step_reference(
    weight: Tensor, grads: Sequence[Tensor], begins: Sequence[int], first: Tensor, second: Tensor, used: Tensor | None,
    coordinates: Sequence[Coordinates | None], lr: Tensor, decay: Tensor, count: Tensor, clip: float,
    betas: tuple[float, float], eps: float, decoupled: bool,
) -> None:  # fmt: skip
    """The definition, one operation and one piece at a time."""
    lr, decay, count = lr[:, None], decay[:, None], count.to(weight.dtype)
    grads = [grad.to(weight.dtype) for grad in grads]
    grads = [grad if c is None else c.gradient(grad) for grad, c in zip(grads, coordinates, strict=True)]
    if clip:
        norm = torch.linalg.vector_norm(torch.cat(grads, dim=1), dim=1, keepdim=True)
        factor = (clip / (norm + 1e-6)).clamp(max=1.0)
        grads = [grad * factor for grad in grads]
    for begin, grad, c in zip(begins, grads, coordinates, strict=True):
        w, m, v = (each[:, begin : begin + grad.size(1)] for each in (weight, first, second))
        if decoupled:
            w.mul_(1 - lr * decay)
        else:
            grad = grad + decay * w
        m.mul_(betas[0]).add_((1 - betas[0]) * grad)
        v.mul_(betas[1]).add_((1 - betas[1]) * grad * grad)
        mean = m / (1 - betas[0] ** count)
        w.sub_(lr * mean / ((v / (1 - betas[1] ** count)).sqrt() + eps))
        if used is not None:
            used[:, begin : begin + grad.size(1)] = w if c is None else c.used(w)


ADAM_STEP = Backends(reference=adam_step_reference, triton="graphprism.ops.kernels.adam_step:adam_step")


def adam_step(
    weight: Tensor,
    grads: Sequence[Tensor],
    first: Tensor,
    second: Tensor,
    *,
    begins: Sequence[int],
    lr: Tensor,
    decay: Tensor,
    count: Tensor,
    clip: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    decoupled: bool = True,
    used: Tensor | None = None,
    coordinates: Sequence[Coordinates | None] | None = None,
    impl: str | None = None,
) -> None:
    r"""Updates weights and both moments in place as `torch.optim.AdamW` does, or `Adam` with ``decoupled=False``.

    The gradient is given in pieces, anywhere in memory; weights outside of all pieces do not change. A gradient whose
    norm over all pieces is above ``clip`` is scaled down to it first, as `torch.nn.utils.clip_grad_norm_` does. Runs
    may be rows of a larger tensor. No host-device sync.

    Pieces may be `Coordinates` of the weights that the network uses: clipping and Adam then apply to the coordinates.

    Args:
        weight: (K, P) the weights of K runs.
        grads: pieces (K, P') of their gradients, each of any floating type.
        first: (K, P) running means of gradients.
        second: (K, P) running means of their squares.
        begins: the column of the weights where each piece begins.
        lr: (K,) learning rates.
        decay: (K,) weight decays.
        count: () number of this step, counted from 1.
        clip: Largest norm; 0 does not clip.
        betas: Decay rates of both moments.
        eps: Added to the denominator.
        decoupled: Whether weight decay shrinks the weights (AdamW) or adds to the gradient (Adam).
        used: (K, P) receives the new weights as the network uses them, in its own type, with the strides of ``weight``.
        coordinates: for each piece; `None` if the network uses the weights themselves, in one piece or in all of them.
        impl: A name of `ADAM_STEP`.
    """
    _check_pieces(weight, grads, begins, first=first, second=second, used=used)
    coordinates = [None] * len(grads) if coordinates is None else coordinates
    _check_coordinates(grads, coordinates, used)
    step = ADAM_STEP.choose(impl, weight.device)
    step(weight, grads, begins, first, second, used, coordinates, lr, decay, count, clip, betas, eps, decoupled)


def _check_pieces(weight: Tensor, grads: Sequence[Tensor], begins: Sequence[int], **others: Tensor | None) -> None:
    for name, tensor in others.items():
        if tensor is not None:
            check_shape(name, tensor, list(weight.shape))
            if tensor.stride() != weight.stride():
                raise ValueError(f"`{name}` must have the strides {weight.stride()}, got {tensor.stride()}")
    if not grads or len(grads) != len(begins):
        raise ValueError(f"`grads` must be as many as `begins`, one at least, got {len(grads)} and {len(begins)}")
    for begin, grad in zip(begins, grads, strict=True):
        check_shape("grads", grad, [weight.size(0), "P'"])
        if not 0 <= begin <= weight.size(1) - grad.size(1):
            raise ValueError(f"`begins` must leave room for {grad.size(1)} of {weight.size(1)} columns, got {begin}")


def _check_coordinates(grads: Sequence[Tensor], coordinates: Sequence[Coordinates | None], used: Tensor | None) -> None:
    if len(coordinates) != len(grads):
        raise ValueError(f"`coordinates` must be as many as `grads`, got {len(coordinates)} and {len(grads)}")
    for grad, each in zip(grads, coordinates, strict=True):
        if each is None:
            continue
        if used is None:
            raise ValueError("`used` must be given with `coordinates`, got None")
        rows = len(each.matrix)
        if grad.size(1) % (rows * each.inner):
            raise ValueError(
                f"`coordinates` must be of pieces of {rows} x {each.inner} numbers or a multiple, got {grad.size(1)}"
            )
