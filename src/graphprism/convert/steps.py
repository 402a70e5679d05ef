"""The steps of a call of a layer: its messages, and the softmaxes over edges before them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import softmax

from graphprism.convert.current_split import NOT_OF_THE_GRAPH, SplitEdgeIndex
from graphprism.convert.layer_call import Call, Stop, check_sizes, found_types, run
from graphprism.convert.own_layers import check_edges
from graphprism.ops.backends import is_batched


class Sent(NamedTuple):
    """A message, the attention that the layer stores with it, and the output of ``edge_updater``, if any."""

    message: Tensor
    alpha: Tensor | None
    update: Tensor | None


class Logits(NamedTuple):
    """Arguments of a call of PyG's ``softmax`` over edges."""

    src: Tensor
    target: Tensor | None
    ptr: Tensor | None
    num_nodes: int | None
    dim: int

    def softmax(self) -> Tensor:
        """What PyG's ``softmax`` gives for them."""
        out: Tensor = softmax(self.src, self.target, self.ptr, self.num_nodes, self.dim)
        return out


class Tap:
    """Replaces methods of a layer during a call: returns the steps ``done`` so far, then records the next ones.

    A step is a message, or a softmax over edges, whose value is its attention.
    """

    def __init__(self, call: Call, done: Sequence[Sent | Tensor], stops: bool) -> None:
        conv = self.conv = call.conv
        self.done, self.stops, self.edges = done, stops, call.edges
        self.methods = {} if call.switch is None else call.switch.bound(conv)
        self._propagate, self._edge_updater = conv.propagate, conv.edge_updater
        self._message = self.methods.get("message", conv.message)
        self.count = 0
        self.messages = 0
        self.update: Tensor | None = None
        self.seen: list[Tensor] = []
        self.made: list[tuple[Sent | Logits, Tensor]] = []

    def replaced(self) -> dict[str, Any]:
        """Attributes of the layer during the call."""
        own = {"propagate": self.propagate, "message": self.message, "edge_updater": self.edge_updater}
        return {**self.methods, **own}

    def propagate(self, edge_index: Any, *args: Any, **kwargs: Any) -> Any:
        """In place of the method of the layer."""
        if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided:
            check_edges(edge_index)
        self.seen.append(edge_index)
        self.edges = edge_index
        return self._propagate(edge_index, *args, **kwargs)

    def edge_updater(self, edge_index: Any, *args: Any, **kwargs: Any) -> Any:
        """In place of the method of the layer, unless a message that is done needs no more of it."""
        place = self._next_message()
        sent = None if place is None else self.done[place]
        if isinstance(sent, Sent) and sent.update is not None:
            return sent.update
        self.edges = edge_index if isinstance(edge_index, Tensor) else None
        out = self._edge_updater(edge_index, *args, **kwargs)
        self.update = out if isinstance(out, Tensor) else None
        return out

    def message(self, *args: Any, **kwargs: Any) -> Tensor:
        """In place of the method of the layer: the next message that is done, or else the layer's."""
        self.messages += 1
        place = self._next_message()
        if place is not None:
            sent, self.count = self.done[place], place + 1
            assert isinstance(sent, Sent)
            check_sizes(sent.message.size(self.conv.node_dim), self.seen[-1].size(1))
            if sent.alpha is not None:
                self.conv._alpha = sent.alpha
            return sent.message
        out: Tensor = self._message(*args, **kwargs)
        self.count += 1
        self._record(Sent(out, getattr(self.conv, "_alpha", None), self.update), self.seen[-1])
        self.update = None
        return out

    def softmax(self, src: Tensor, index: Tensor | None, ptr: Tensor | None, num_nodes: int | None, dim: int) -> Tensor:
        """In place of PyG's, over all edges: the next attention that is done, or else PyG's."""
        logits = Logits(src, index, ptr, num_nodes, dim)
        if self.edges is None or src.size(dim) != self.edges.size(1) or not may_be_ends(index, self.edges):
            return logits.softmax()  # not of all edges
        number, self.count = self.count, self.count + 1
        if number < len(self.done):
            alpha = self.done_alpha(number)
            check_sizes(alpha.size(dim), src.size(dim))
            return alpha
        self._record(logits, self.edges)
        return logits.softmax()

    def done_alpha(self, number: int) -> Tensor:
        """The attention of a softmax that is done."""
        alpha = self.done[number]
        if isinstance(alpha, Sent):
            raise ValueError(f"{type(self.conv).__name__} must compute the same softmax in every call, got another")
        return alpha

    def _next_message(self) -> int | None:
        """Place of the next message that is done; a softmax inside of it is not computed again."""
        return next((n for n in range(self.count, len(self.done)) if isinstance(self.done[n], Sent)), None)

    def _record(self, step: Sent | Logits, edges: Tensor) -> None:
        self.made.append((step, edges))
        if self.stops:
            raise Stop


def may_be_ends(index: Tensor | None, edges: Tensor) -> bool:
    """Whether groups are those of the ends of ``edges``, not of as many nodes or anything else.

    Where tensors have no memory of their own (compiled code, `torch.vmap`, PyG's ``EdgeIndex``), the number of rows has
    to do.
    """
    if index is None or torch.compiler.is_compiling():
        return True
    if any(type(each) is not Tensor or is_batched(each) for each in (index, edges)):
        return True
    return index.untyped_storage().data_ptr() == edges.untyped_storage().data_ptr()


def next_step(call: Call, parameters: dict[str, Tensor], done: Sequence[Sent | Tensor]) -> tuple[Sent | Logits, Tensor]:
    """The message or the logits after the steps ``done``, with other parameters of the layer, and their edges."""
    # an exception cannot be traced: compiled code runs the call to the end, and ignores its output
    tap = Tap(call, done, stops=not torch.compiler.is_compiling())
    with suppress(Stop):
        run(call, tap, parameters)
    if tap.made:
        return tap.made[0]
    raise too_few_messages(call.conv, done, tap.messages)


def whole_steps(
    call: Call,
    parameters: Callable[[], Sequence[Mapping[str, Tensor]]],
    calls: int,
    entry: list[SplitEdgeIndex],
) -> list[Sent | Tensor]:
    """All steps of a call with the rows of every edge from the copy of its relation; each copy gets all edges.

    Args:
        call: the call.
        parameters: of each copy, by name, for the next step.
        calls: how often the layer passes messages.
        entry: the edges of the call with their relations.
    """
    done: list[Sent | Tensor] = []
    while sum(isinstance(each, Sent) for each in done) < calls:
        copies = parameters()
        made = []
        for own in copies:
            step, seen = next_step(call, dict(own), done)
            made.append(step)
        types = found_types(seen, entry, len(copies))
        if types is None:
            raise ValueError(NOT_OF_THE_GRAPH.format(type(call.conv).__name__))
        done.append(mixed_step(made, types, call.conv.node_dim))
    return done


def too_few_messages(conv: MessagePassing, done: Sequence[Sent | Tensor], messages: int) -> ValueError:
    """The error of a layer that passes messages less often than in another call."""
    wanted = sum(isinstance(each, Sent) for each in done) + 1
    return ValueError(f"{type(conv).__name__} must pass messages {wanted} times, got {messages} times")


def with_steps(call: Call, done: Sequence[Sent | Tensor]) -> Any:
    """The output of a call with these steps."""
    tap = Tap(call, done, stops=False)
    out = run(call, tap, {})
    messages = sum(isinstance(each, Sent) for each in done)
    if tap.messages != messages:
        raise ValueError(f"{type(call.conv).__name__} must pass messages {messages} times, got {tap.messages} times")
    return out


def mixed_step(each: list[Sent | Logits], types: Tensor, node_dim: int) -> Sent | Tensor:
    """A step with the rows of every edge from the copy of its relation; of logits the softmax."""
    sent = [step for step in each if isinstance(step, Sent)]
    logits = [step for step in each if isinstance(step, Logits)]
    if not sent:
        src = select([step.src for step in logits], types, logits[0].dim)
        return logits[0]._replace(src=src).softmax()
    message = select([step.message for step in sent], types, node_dim)
    return Sent(message, _mixed([step.alpha for step in sent], types), _mixed([step.update for step in sent], types))


def _mixed(each: list[Tensor | None], types: Tensor) -> Tensor | None:
    """Per-edge rows other than messages, each from the copy of its relation; None unless there is a row per edge."""
    known = [part for part in each if part is not None and part.dim() and part.size(0) == types.size(0)]
    return select(known, types, 0) if len(known) == len(each) else None


def select(each: list[Tensor], types: Tensor, node_dim: int) -> Tensor:
    """The message of every edge from the copy of its relation."""
    dim = node_dim if node_dim >= 0 else each[0].dim() + node_dim
    for message in each:
        check_sizes(message.size(dim), types.size(0))
    shape = [-1 if axis == dim else 1 for axis in range(each[0].dim())]
    if types.dim() == 2:
        scores = types.to(each[0].dtype)
        return torch.stack([scores[:, r].view(shape) * each[r] for r in range(len(each))]).sum(dim=0)
    out = each[0]
    for r in range(1, len(each)):
        out = torch.where((types == r).view(shape), each[r], out)
    return out
