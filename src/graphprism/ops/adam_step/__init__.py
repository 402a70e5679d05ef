"""One step of Adam or AdamW for many runs, each with its own learning rate."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from graphprism._checks import check_shape
from graphprism.ops.adam_step import reference

IMPLEMENTATIONS: dict[str, Callable[..., None]] = {"reference": reference.adam_step}
try:
    from graphprism.ops.adam_step import triton
except ImportError:  # comes with PyTorch's CUDA builds, and only there
    pass
else:
    IMPLEMENTATIONS["triton"] = triton.adam_step


def adam_step(
    weight: Tensor,
    grad: Tensor,
    first: Tensor,
    second: Tensor,
    *,
    lr: Tensor,
    decay: Tensor,
    count: Tensor,
    norm: Tensor,
    clip: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    decoupled: bool = True,
    impl: str | None = None,
) -> None:
    r"""Changes weights and both moments in place as `torch.optim.AdamW` does, or `Adam` with ``decoupled=False``.

    A gradient whose norm is above ``clip`` is scaled down to it first, as `torch.nn.utils.clip_grad_norm_` does. Runs
    may be rows of a larger tensor. Nothing waits for the device.

    Args:
        weight: (K, P) the weights of K runs.
        grad: (K, P) their gradients, in any floating type.
        first: (K, P) running means of gradients.
        second: (K, P) running means of their squares.
        lr: (K,) learning rates.
        decay: (K,) weight decays.
        count: () number of this step, counted from 1.
        norm: (K,) norm of the whole gradient of each run, of which this may be a part.
        clip: Largest norm; 0 does not clip.
        betas: Both rates of forgetting.
        eps: Keeps the division from zero.
        decoupled: Whether weight decay shrinks the weights (AdamW) or adds to the gradient (Adam).
        impl: A name of `IMPLEMENTATIONS`.
    """
    for name, tensor in (("grad", grad), ("first", first), ("second", second)):
        check_shape(name, tensor, list(weight.shape))
    name = impl or ("triton" if weight.is_cuda and "triton" in IMPLEMENTATIONS else "reference")
    if name not in IMPLEMENTATIONS:
        raise ValueError(f"`impl` must be one of {sorted(IMPLEMENTATIONS)} on this machine, got {impl!r}")
    IMPLEMENTATIONS[name](weight, grad, first, second, lr, decay, count, norm, clip, betas, eps, decoupled)
