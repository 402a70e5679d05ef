"""A call of a layer of PyG with some of its methods replaced, and the edges of such a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing

from graphprism.convert.current_split import SplitEdgeIndex, types_at
from graphprism.convert.mrs_model import is_edge_index
from graphprism.convert.softmax_switch import SoftmaxSwitch


class Call(NamedTuple):
    """A call of a layer, with the edges that it gets, if they are one tensor."""

    conv: MessagePassing
    switch: SoftmaxSwitch | None
    edges: Tensor | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Stop(Exception):
    """Aborts a call of a layer once its message, or the logits of its attention, are computed."""


class Replaced(Protocol):
    """Replaces methods of a layer during a call; its ``softmax``, if any, takes the place of PyG's."""

    def replaced(self) -> dict[str, Any]:
        """Attributes of the layer during the call."""


def run(call: Call, tap: Replaced, parameters: dict[str, Tensor]) -> Any:
    """Calls a layer with other parameters or buffers, and with methods replaced."""
    conv, replaced = call.conv, tap.replaced()
    before, own = dict(vars(conv)), vars(conv)  # not `setattr`, which compiled code cannot undo
    own.update(replaced)
    if call.switch is not None:
        call.switch.replacement = getattr(tap, "softmax", None)
    try:
        if parameters:
            return torch.func.functional_call(conv, parameters, call.args, call.kwargs)
        return conv(*call.args, **call.kwargs)
    finally:
        if call.switch is not None:
            call.switch.replacement = None
        for name in replaced:
            if name in before:
                own[name] = before[name]
            else:
                del own[name]
        if "_alpha" in before:  # an aborted call would leave it set, with its autograd graph
            conv._alpha = before["_alpha"]


def edges_of_call(named: Mapping[str, Any]) -> list[Tensor]:
    """The edges that a convolution is called with: a tensor, or several in a dictionary, in its order."""
    tensors = {name: value for name, value in named.items() if is_edge_index(value)}
    if "edge_index" in tensors:
        return [tensors["edge_index"]]
    chosen = [value for name, value in tensors.items() if name.endswith("edge_index")] or list(tensors.values())
    for value in named.values():
        if isinstance(value, Mapping):
            chosen += [edges for edges in value.values() if is_edge_index(edges)]
    return chosen


def found_types(seen: Tensor, entries: list[SplitEdgeIndex], num_relations: int) -> Tensor | None:
    """Relations of the edges that messages are passed along; None if these are not the edges that the layer got."""
    for entry in entries:
        if seen is entry.edge_index:
            return entry.edge_type
    if len(entries) > 1:  # hetero layers renumber all nodes consecutively and concatenate the edges
        types = torch.cat([entry.edge_type for entry in entries])
        return types if types.size(0) == seen.size(1) else None
    return types_at(seen, entries[0], num_relations)


def check_sizes(messages: int, edges: int) -> None:
    """Raises unless there is one message per edge; compiled code, which may not know either number, assumes it."""
    if torch.compiler.is_compiling():
        torch._check(messages == edges)
    elif messages != edges:
        raise ValueError(f"a converted layer must have one message per edge, {edges}, got {messages}")
