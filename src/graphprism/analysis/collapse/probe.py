"""Hooks that record the output of every convolution of a model."""

from __future__ import annotations

import copy
import inspect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module, functional
from torch.nn.parameter import is_lazy
from torch_geometric.nn import HeteroConv

from graphprism._caches import without_caches
from graphprism._checks import check_type
from graphprism.analysis.collapse.measure import Measures, measure


@dataclass
class Call:
    """One call of one convolution; ``output`` is kept for its gradient only."""

    name: str
    module: Module
    measures: Measures
    output: Tensor


@dataclass
class Probe:
    """Collects the calls of the hooked modules. ``edge_index`` and ``batch`` are those of the ``num_nodes`` nodes."""

    num_nodes: int | None
    edge_index: Tensor | None
    batch: Tensor | None
    calls: list[Call] = field(default_factory=list)

    @contextmanager
    def watching(self, modules: Mapping[str, Module]) -> Iterator[None]:
        """Hooks the modules for as long as the block runs."""
        handles = [module.register_forward_hook(partial(self._look, name)) for name, module in modules.items()]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _look(self, name: str, module: Module, _args: object, output: Any) -> Any:
        first = output[0] if isinstance(output, (tuple, list)) and output else output
        if not isinstance(first, Tensor) or first.dim() == 0 or not first.is_floating_point():
            return output
        states = self._by_node(first.detach())
        fits = states.size(0) == self.num_nodes
        measures = measure(states, self.edge_index if fits else None, self.batch if fits else None)
        if not torch.is_grad_enabled():
            self.calls.append(Call(name, module, measures, first))
            return output
        kept = first if first.requires_grad else first.detach().requires_grad_()
        self.calls.append(Call(name, module, measures, kept))
        # The model continues with a copy: an activation in place would overwrite `kept`.
        copy = kept.clone()
        return (copy, *output[1:]) if isinstance(output, (tuple, list)) else copy

    def _by_node(self, states: Tensor) -> Tensor:
        """One row per node: (N,) and (N, heads, F) states, and (T, N, F) states of a static graph."""
        if states.dim() > 2 and states.size(0) != self.num_nodes and states.size(-2) == self.num_nodes:
            states = states.movedim(-2, 0)
        return states.reshape(states.size(0), -1) if states.numel() else states.new_empty(states.size(0), 0)


def check_model(model: object) -> None:
    """Raises `TypeError` unless ``model`` is a module; of what holds one it says so."""
    has_one = not isinstance(model, Module) and isinstance(getattr(model, "network", None), Module)
    check_type("model", model, Module, f"a torch.nn.Module{', such as its `.network`' if has_one else ''}")


def call_model(model: Module, data: Any, forward: Callable[[Any, Any], Any] | None) -> Any:
    """``forward(model, data)`` if given, else the model called with the attributes of ``data`` named by its arguments.

    The model gets a shallow copy of ``data``, so that assignments to it have no effect outside.
    """
    data = copy.copy(data)
    return forward(model, data) if forward is not None else model(**_arguments(model, data))


def _arguments(model: Module, data: Any) -> dict[str, Any]:
    # a wrapper, such as the result of `to_mrs`, exposes the signature of the wrapped model
    signature = getattr(model, "call_signature", None) or inspect.signature(model.forward)
    parameters = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    required = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    # `batch` alone is PyG's usual name for a whole batch; beside other arguments it is the vector of graph numbers.
    if len(required) == 1 and (required[0] == "batch" or attribute(data, required[0]) is None):
        return {required[0]: data}
    found = {parameter.name: attribute(data, parameter.name) for parameter in parameters}
    missing = [name for name in required if found[name] is None]
    if missing:
        raise ValueError(
            f"`data` must have the arguments of {type(model).__name__}.forward, got no {', '.join(missing)}: "
            f"pass forward=lambda model, data: model({_call_text(required, data)})"
        )
    return {name: value for name, value in found.items() if value is not None}


def _call_text(required: Sequence[str], data: Any) -> str:
    """Arguments for a call: attributes of the same name, features and edges where a name fits, else ``...``.

    >>> from torch_geometric.data import Data
    >>> _call_text(["feats", "edges", "depth"], Data(x=torch.ones(1, 1), edge_index=torch.zeros(2, 1)))
    'feats=data.x, edges=data.edge_index, depth=...'
    """
    words = {"x": ("feat", "node_feat", "input"), "edge_index": ("edge", "adj")}
    texts = []
    for name in required:
        guesses = [key for key, starts in words.items() if name.lower().startswith(starts)]
        found = next((key for key in (name, *guesses) if attribute(data, key) is not None), None)
        texts.append(f"{name}={'...' if found is None else f'data.{found}'}")
    return ", ".join(texts)


def attribute(data: Any, name: str) -> Any:
    """The attribute of ``data``; None if it is missing or a method."""
    value = getattr(data, name, None)
    return None if callable(value) and not isinstance(value, Tensor) else value


# MessagePassing is defined in PyG's, so that every subclass is found; our only layer that is none is DirConv.
# Weights and scores of relations are in `graphprism.nn.conv`, too, but hold no states of nodes.
_ADDRESSES = ("graphprism.nn.conv.dir_conv", "torch_geometric.nn.conv")


def find_layers(model: Module, names: Sequence[str] | None) -> dict[str, Module]:
    """The modules of these names, or all convolutions; a convolution inside another is part of it."""
    if names is None:
        found = dict(_outermost(model, ""))
        if not found:
            raise ValueError(
                f"`model` must hold a convolution, got none in {type(model).__name__}: pass layers=[names]"
            )
        return found
    if isinstance(names, str) or not isinstance(names, Sequence) or not names:
        raise TypeError(f"`layers` must be a list of names of modules, got {names!r}")
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
    # HeteroConv returns one matrix per node type: its submodules are listed instead.
    if isinstance(module, HeteroConv):
        return False
    # By the module of the class, since some layers (GPSConv, DirGNNConv, our DirConv) are not MessagePassing.
    return any(kind.__module__.startswith(_ADDRESSES) for kind in type(module).__mro__)


# Not `Tensor`: the result of a caller's function is checked.
Loss = Callable[[Any, Any], Any]


def form_loss(output: Any, data: Any, labels: Tensor | None, loss: Loss | None) -> tuple[Tensor | None, str]:
    """The loss and its name, or None and the reason why there is none."""
    value: Any
    labels = attribute(data, "y") if labels is None else labels
    output = output[0] if loss is None and isinstance(output, (tuple, list)) and output else output
    output, labels, where = _on_training_nodes(output, labels, data)
    if loss is None:
        value, name = _default_loss(output, labels)
    else:
        value, name = loss(output, labels), getattr(loss, "__name__", type(loss).__name__)
    if loss is None and value is None:
        return None, f"no loss: {name}"
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise ValueError(f"`loss` must return a scalar tensor, got {_describe(value)}")
    return (value.sum(), name + where) if value.requires_grad else (None, "no loss: it depends on no layer")


def _on_training_nodes(output: Any, labels: Any, data: Any) -> tuple[Any, Any, str]:
    """Restricts output and labels to ``data.train_mask`` (the first fold of several) if the shapes fit."""
    mask = attribute(data, "train_mask")
    if not all(isinstance(value, Tensor) and value.dim() for value in (mask, output, labels)):
        return output, labels, ""
    mask = mask[:, 0] if mask.dim() == 2 else mask
    if mask.dtype != torch.bool or not mask.size(0) == output.size(0) == labels.size(0):
        return output, labels, ""
    return output[mask], labels[mask], " over the training nodes"


def _default_loss(output: Any, labels: Any) -> tuple[Tensor | None, str]:
    if labels is None:
        return None, "labels are missing"
    if not isinstance(labels, Tensor) or not isinstance(output, Tensor) or not output.is_floating_point():
        return None, "output and labels must be tensors, the output of a floating-point type"
    if output.numel() == 0:
        return None, "no output has a label"
    if (
        labels.is_floating_point()
        and labels.numel() == output.numel()
        and labels.squeeze().shape == output.squeeze().shape
    ):
        return functional.mse_loss(output, labels.reshape(output.shape).to(output.dtype)), "mean squared error"
    classes = labels.reshape(-1)
    if not labels.is_floating_point() and output.dim() == 2 and classes.numel() == output.size(0):
        low, high = int(classes.min()), int(classes.max())
        if low >= 0 and high < output.size(1):
            return functional.cross_entropy(output, classes.long()), "cross entropy"
    return None, f"labels of shape {list(labels.shape)} and {labels.dtype} do not fit the output {list(output.shape)}"


def _describe(value: object) -> str:
    return f"shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


@contextmanager
def preserved(model: Module) -> Iterator[None]:
    """Restores attributes (mode, hooks, caches), buffers and the random state on exit, also after an exception.

    Inside, layers with ``cached=True`` use the graphs that they are called with.

    Neither a forward pass nor `torch.autograd.grad` changes values and gradients of parameters.
    """
    tensors = [*model.parameters(), *model.buffers()]
    if any(is_lazy(value) for value in tensors):
        raise ValueError("`model` must be initialised, got lazy parameters: run it once before")
    saved = [(module, _copy_of_attributes(module)) for module in model.modules()]
    numpy_state, python_state = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices={tensor.device for tensor in tensors if tensor.is_cuda}):
        try:
            _replace_buffers(model)
            with without_caches(model):
                yield
        finally:
            for module, attributes in saved:
                _restore(module, attributes)
            np.random.set_state(numpy_state)
            random.setstate(python_state)


def _copy_of_attributes(module: Module) -> dict[str, Any]:
    """Attributes by name, each with a copy of its items if it is a dict or a list."""
    return {name: (value, _items(value)) for name, value in vars(module).items()}


def _items(value: Any) -> Any:
    return value.copy() if isinstance(value, (dict, list)) else None


def _replace_buffers(model: Module) -> None:
    """Replaces buffers by copies. Writing old values back in place would break pending backward passes."""
    copies: dict[Tensor, Tensor] = {}
    for module in model.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = copies.setdefault(buffer, buffer.clone())


def _restore(module: Module, attributes: dict[str, Any]) -> None:
    for name in [name for name in vars(module) if name not in attributes]:
        del vars(module)[name]
    for name, (value, items) in attributes.items():
        vars(module)[name] = value
        # In place: a hook handle refers to the dict of hooks by identity.
        if isinstance(value, dict):
            value.clear()
            value.update(items)
        elif isinstance(value, list):
            value[:] = items
