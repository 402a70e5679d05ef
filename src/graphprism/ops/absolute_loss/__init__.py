"""Mean absolute errors of many runs and their gradients at once."""

from __future__ import annotations

from contextlib import suppress

from torch import Tensor

from graphprism._checks import check_shape
from graphprism.ops.absolute_loss import reference
from graphprism.ops.forms import Forms

IMPLEMENTATIONS = Forms(reference)
with suppress(ImportError):  # triton comes with PyTorch's CUDA builds, and only there
    from graphprism.ops.absolute_loss import triton

    IMPLEMENTATIONS.add_kernels(triton)


def absolute_loss(
    output: Tensor, target: Tensor, share: Tensor, losses: Tensor, turn: Tensor, *, impl: str | None = None
) -> Tensor:
    r"""Writes a loss for each run and gives its gradient with respect to ``output``.

    .. math:: \ell_k = \sum_b s_{k,b} \, \frac{1}{T} \sum_t |o_{k,b,t} - y_{k,b,t}|

    Without autograd. Nothing waits for the device.

    Args:
        output: (K, B, T) what K networks say about the B graphs of their batches, :math:`o`.
        target: (K, B, T) what they should say, :math:`y`.
        share: (K, B) what each graph counts, :math:`s`.
        losses: (S, K) takes the losses, in one row.
        turn: (1,) the number of that row.
        impl: A name of `IMPLEMENTATIONS`.
    """
    check_shape("target", target, list(output.shape))
    check_shape("share", share, list(output.shape[:2]))
    check_shape("losses", losses, ["S", output.size(0)])
    form = IMPLEMENTATIONS.choose(impl, lambda kernels: output.is_cuda)
    found: Tensor = form.absolute_loss(output.detach(), target, share, losses, turn)
    return found
