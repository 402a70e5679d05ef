"""PyG's ``softmax`` in the methods of a layer, replaced for the time of a call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

from torch import Tensor
from torch_geometric.utils import softmax


class SoftmaxSwitch:
    """Copies of the methods of a class that call ``torch_geometric.utils.softmax``: they call this object instead.

    PyG's own modules, and layers that are not converted, are left as they are. A call is that of PyG, or that of
    ``replacement`` if there is one. Copies and pickles of a switch are new ones for the same class.

    Args:
        kind: the class.

    Example:
        >>> import torch_geometric.nn
        >>> sorted(SoftmaxSwitch(torch_geometric.nn.GATv2Conv).methods)
        ['edge_update']
    """

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.replacement: Callable[..., Tensor] | None = None
        found: dict[str, Any] = {}
        for each in kind.__mro__:
            for name, value in vars(each).items():
                found.setdefault(name, value)
        self.methods = {name: self._copied(value) for name, value in found.items() if _names_of_softmax(value)}

    def _copied(self, method: FunctionType) -> FunctionType:
        own = dict(method.__globals__)
        own.update({name: self for name in _names_of_softmax(method)})
        # compiled code would look a name up in the module that `__name__` names
        own.pop("__name__", None)
        copied = FunctionType(method.__code__, own, method.__name__, method.__defaults__, method.__closure__)
        copied.__kwdefaults__ = method.__kwdefaults__
        return copied

    def __reduce__(self) -> tuple[type[SoftmaxSwitch], tuple[type]]:
        return type(self), (self.kind,)

    def bound(self, layer: object) -> dict[str, Callable[..., Any]]:
        """The copies as methods of ``layer``."""
        return {name: partial(method, layer) for name, method in self.methods.items()}

    def __call__(
        self,
        src: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        num_nodes: int | None = None,
        dim: int = 0,
    ) -> Tensor:
        """The softmax of ``src`` over groups of its rows, with the arguments of PyG's."""
        called = softmax if self.replacement is None else self.replacement
        out: Tensor = called(src, index, ptr, num_nodes, dim)
        return out


def _names_of_softmax(method: object) -> list[str]:
    """Names by which a function calls PyG's ``softmax``."""
    if not isinstance(method, FunctionType):
        return []
    return [name for name in method.__code__.co_names if method.__globals__.get(name) is softmax]
