"""One step of Adam or AdamW for many runs, each with its own learning rate."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from torch import Tensor

from graphprism._checks import check_shape
from graphprism.ops.adam_step import reference
from graphprism.ops.forms import Forms

IMPLEMENTATIONS = Forms(reference)
with suppress(ImportError):  # triton comes with PyTorch's CUDA builds, and only there
    from graphprism.ops.adam_step import triton

    IMPLEMENTATIONS.add_kernels(triton)


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
    low: Tensor | None = None,
    impl: str | None = None,
) -> None:
    r"""Changes weights and both moments in place as `torch.optim.AdamW` does, or `Adam` with ``decoupled=False``.

    The gradient comes in pieces that stand anywhere; numbers of the weights that belong to none of them stay as they
    are. A gradient whose norm, all pieces together, is above ``clip`` is scaled down to it first, as
    `torch.nn.utils.clip_grad_norm_` does. Runs may be rows of a larger tensor. Nothing waits for the device.

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
        betas: Both rates of forgetting.
        eps: Keeps the division from zero.
        decoupled: Whether weight decay shrinks the weights (AdamW) or adds to the gradient (Adam).
        low: (K, P) takes a copy of the new weights in its own type, laid out in memory as they are.
        impl: A name of `IMPLEMENTATIONS`.
    """
    _check(weight, grads, begins, first=first, second=second, low=low)
    form = IMPLEMENTATIONS.choose(impl, lambda kernels: weight.is_cuda)
    form.adam_step(weight, grads, begins, first, second, low, lr, decay, count, clip, betas, eps, decoupled)


def _check(weight: Tensor, grads: Sequence[Tensor], begins: Sequence[int], **others: Tensor | None) -> None:
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
