"""Runs a model on data by the names of its arguments."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import Module


def call_model(model: Module, data: Any, forward: Callable[[Any, Any], Any] | None) -> Any:
    """``forward(model, data)`` where given, else the model with the attributes of ``data`` that it asks for by name.

    The model gets a shallow copy of ``data``: what it assigns to it is not seen outside.
    """
    data = copy.copy(data)
    return forward(model, data) if forward is not None else model(**_arguments(model, data))


def _arguments(model: Module, data: Any) -> dict[str, Any]:
    parameters = [
        parameter
        for parameter in inspect.signature(model.forward).parameters.values()
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
            f"`data` must have what {type(model).__name__}.forward asks for, got no {', '.join(missing)}: "
            "pass forward=lambda model, data: ..."
        )
    return {name: value for name, value in found.items() if value is not None}


def attribute(data: Any, name: str) -> Any:
    """The attribute of ``data``, or None where there is none or only a method of that name."""
    value = getattr(data, name, None)
    return None if callable(value) and not isinstance(value, Tensor) else value
