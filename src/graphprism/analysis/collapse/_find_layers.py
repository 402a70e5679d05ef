"""Which modules of a model are its convolutions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch.nn import Module
from torch_geometric.nn import HeteroConv

# MessagePassing lives there too, so that every layer built on it is found.
_ADDRESSES = ("graphprism.nn.conv", "torch_geometric.nn.conv")


def find_layers(model: Module, names: Sequence[str] | None) -> dict[str, Module]:
    """The modules of these names, or all convolutions; a convolution inside another is part of it."""
    if names is None:
        found = dict(_outermost(model, ""))
        if not found:
            raise ValueError(
                f"`model` must hold a convolution, got none in {type(model).__name__}: pass layers=[names]"
            )
        return found
    modules = dict(model.named_modules())
    unknown = [name for name in names if name not in modules]
    if unknown:
        raise ValueError(f"`layers` must name modules of the model, got {', '.join(map(repr, unknown))}")
    return {name: modules[name] for name in names}


def _outermost(module: Module, name: str) -> Iterator[tuple[str, Module]]:
    if _is_convolution(module):
        yield name, module
        return
    for child_name, child in module.named_children():
        yield from _outermost(child, f"{name}.{child_name}" if name else child_name)


def _is_convolution(module: Module) -> bool:
    # HeteroConv gives one matrix per node type: its parts are listed instead.
    if isinstance(module, HeteroConv):
        return False
    # By the address of the class, since some layers of PyG (GPSConv, DirGNNConv) and all of ours are plain modules.
    return any(kind.__module__.startswith(_ADDRESSES) for kind in type(module).__mro__)
