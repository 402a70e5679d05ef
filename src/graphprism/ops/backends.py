"""Choice of the backend of an op."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from types import ModuleType
from typing import Any

import torch

from graphprism.ops import kernels

_CPU = torch.device("cpu")
# Whether the automatic choice takes Triton kernels on the CPU too; set by tests that use Triton's interpreter.
_INTERPRETED = False


class Backends(Collection[str]):
    """The implementations of an op, by name.

    A kernel is given as the name ``"module:function"`` and loaded when it is first chosen, so that importing an op
    never imports Triton. ``in`` and iteration cover only the backends that can run on this machine.

    Args:
        automatic: Default of the automatic choice.
        backends: Functions with the same signature; ``triton`` is the name of a kernel's function.

    Example:
        >>> backends = Backends(reference=sum)
        >>> backends.choose(None, torch.device("cpu"))([1, 2])
        3
        >>> backends.choose("fast", torch.device("cpu"))
        Traceback (most recent call last):
        ValueError: `impl` must be one of ['reference'] on this machine, got 'fast': there is no such backend
    """

    def __init__(self, automatic: str = "reference", **backends: Callable[..., Any] | str) -> None:
        self._automatic, self._backends = automatic, backends
        self._loaded = {name: each for name, each in backends.items() if not isinstance(each, str)}

    def choose(
        self, impl: str | None, device: torch.device, fits: Callable[[ModuleType], bool] | None = None
    ) -> Callable[..., Any]:
        """The requested backend, or by default the best one for the call.

        A requested backend that cannot run raises with the reason; the automatic choice falls back instead. Code under
        `torch.compile` or `torch.func` gets ``scatter``, which consists of plain PyTorch operations.

        Args:
            impl: Name of a backend; `None` for the automatic choice.
            device: Where the tensors of the call are.
            fits: Given the module of the kernel, returns whether it supports the call; by default always.
        """
        if impl is not None:
            return self._load(impl if isinstance(impl, str) else repr(impl))
        if "scatter" in self._backends and is_transformed():
            return self._load("scatter")
        return self._load("triton" if self.kernel_fits(device, fits) else self._automatic)

    def kernel_fits(self, device: torch.device, fits: Callable[[ModuleType], bool] | None = None) -> bool:
        """Whether the op has a Triton kernel that can run here and supports the call."""
        # compared as a whole first: `device.type` makes a string, 0.6 us in every op on the CPU
        if "triton" not in self._backends or (device == _CPU and not _INTERPRETED):
            return False
        if device.type not in ("cuda", "cpu") or "triton" not in self:
            return False
        return fits is None or fits(self.kernels)

    @property
    def kernels(self) -> ModuleType:
        """The module that holds the Triton kernel."""
        return sys.modules[self._load("triton").__module__]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._backends and self._missing(name) is None

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._backends if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def reasons(self) -> dict[str, str]:
        """Why each of the other backends cannot run on this machine."""
        return {name: reason for name in self._backends if (reason := self._missing(name)) is not None}

    def _missing(self, name: str) -> str | None:
        """Why a backend cannot run on this machine."""
        return None if name in self._loaded else kernels.missing(str(self._backends[name]).partition(":")[0])

    def _load(self, name: str) -> Callable[..., Any]:
        if (found := self._loaded.get(name)) is not None:
            return found
        reason = self._missing(name) if name in self._backends else "there is no such backend"
        if reason is not None:
            raise ValueError(f"`impl` must be one of {sorted(self)} on this machine, got {name!r}: {reason}")
        self._loaded[name] = pkgutil.resolve_name(str(self._backends[name]))
        return self._loaded[name]


def is_transformed() -> bool:
    """Whether the code runs under `torch.compile`, `torch.jit.trace`, `torch.vmap` or a transform of `torch.func`."""
    return torch.compiler.is_compiling() or inside_functorch() or is_traced()


def is_traced() -> bool:
    """Whether the code runs under `torch.jit.trace`, where sizes of tensors are tensors."""
    return torch._C._get_tracing_state() is not None


def is_exported() -> bool:
    """Whether the code runs under `torch.export`, where a comparison of sizes would limit those of the program."""
    return bool(getattr(torch.compiler, "is_exporting", bool)())  # since torch 2.7


def inside_functorch() -> bool:
    """Whether the code runs under `torch.vmap` or another transform of `torch.func`."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def is_captured(tensor: torch.Tensor) -> bool:
    """Whether operations on a tensor are being captured as a CUDA graph, so that the host must not wait for them."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def is_batched(tensor: torch.Tensor) -> bool:
    """Whether a tensor has no storage, which kernels and ``out=`` need: one of `torch.vmap` or `is_grads_batched`."""
    return not torch._C._has_storage(tensor)


def plain_gradients(
    function: Callable[..., Any], inputs: Sequence[Any], grads: Any, needed: Sequence[bool]
) -> list[torch.Tensor | None]:
    """Gradients of ``function(*inputs)`` from autograd, where kernels cannot compute a backward pass.

    That is for second derivatives, which need a gradient with a gradient, and for batched gradients (`is_batched`).
    """
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # views: an input that was computed from another one must not add to the gradient of that one here
        given = [each.view_as(each) if isinstance(each, torch.Tensor) else each for each in inputs]
        out = function(*given)
    wanted = [each for each, need in zip(given, needed, strict=False) if need]
    found = iter(torch.autograd.grad(out, wanted, grads, create_graph=create_graph) if wanted else ())
    return [next(found) if need else None for need in needed[: len(given)]]
