"""The steps of all copies of a layer, each with the edges of its own relation alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing

from graphprism.convert.current_split import NOT_OF_THE_GRAPH, SplitEdgeIndex
from graphprism.convert.layer_call import Call, Stop, check_sizes, found_types, run
from graphprism.convert.own_layers import has_any_hooks
from graphprism.convert.steps import Logits, Sent, Tap, may_be_ends, too_few_messages


class EdgeArguments(NamedTuple):
    """Names of the tensors that a layer gives to ``propagate`` and ``edge_updater``: with a row per edge, or without.

    There are such names for a layer only if its messages depend on no other edges: see `probe_parts`.
    """

    of_edges: frozenset[str]
    of_others: frozenset[str]


class Unsure(Exception):
    """A call differs from those of the probe, so that its copies must get all edges."""


# What parts of a call may raise where the whole call raises nothing, or something of its own.
NOT_IN_PARTS = (Unsure, ValueError, RuntimeError, IndexError)


def steps_in_parts(
    call: Call,
    parameters: Sequence[Mapping[str, Tensor]],
    calls: int,
    entry: list[SplitEdgeIndex],
    arguments: EdgeArguments,
) -> list[Sent | Tensor]:
    """All steps of a call with the rows of every edge from the copy of its relation; `Unsure` if it cannot be done.

    Args:
        call: the call.
        parameters: of each copy, by name.
        calls: how often the layer passes messages.
        entry: the edges of the call with their relations.
        arguments: what the edges of one relation have rows in.
    """
    done: list[Sent | Tensor] = []
    known: list[_Parts] = []
    while sum(isinstance(each, Sent) for each in done) < calls:
        done += _Round(call, parameters, done, entry, arguments, known).steps()
    return done


class _Parts:
    """Edges that messages are passed along, by relation.

    Attributes:
        edges: all of them.
        rows: positions of the edges of each relation.
        own: the edges of each relation.
    """

    def __init__(self, edges: Tensor, types: Tensor, num_relations: int) -> None:
        self.edges = edges
        place = types.argsort(stable=True)
        counts = torch.bincount(types, minlength=num_relations).tolist()  # the one host-device sync
        if len(counts) > num_relations:
            raise Unsure  # a relation that there is not
        self.rows: Sequence[Tensor] = place.split(counts)
        self.own = [each.contiguous() for each in edges.index_select(1, place).split(counts, dim=1)]
        number = torch.arange(place.numel(), device=place.device)
        self._inverse = torch.empty_like(place).scatter_(0, place, number)

    def joined(self, parts: list[Tensor], dim: int) -> Tensor:
        """Rows of all edges in their order, from those of each relation that has edges."""
        return torch.cat(parts, dim).index_select(dim, self._inverse)


class _Round:
    """One run of every copy: up to the next step, and past a softmax up to the step after it.

    At a softmax a copy waits until all of them have come so far: the next copy is run inside of its call.
    """

    def __init__(
        self,
        call: Call,
        parameters: Sequence[Mapping[str, Tensor]],
        done: Sequence[Sent | Tensor],
        entry: list[SplitEdgeIndex],
        arguments: EdgeArguments,
        known: list[_Parts],
    ) -> None:
        self.call, self.parameters, self.done, self.entry = call, parameters, done, entry
        self.arguments, self._known = arguments, known
        self._started = 0
        self._found: list[dict[int, Sent | Logits]] = [{}, {}]
        self._parts: list[_Parts] = []
        self._alpha: Tensor | None = None
        # before any call, as they keep the methods of the layer that they replace
        self._taps = [_PartTap(self, relation) for relation in range(len(parameters))]

    def steps(self) -> list[Sent | Tensor]:
        """The next step, or two of them."""
        self._run_others()
        if not self._found[0]:
            raise Unsure  # no relation has edges
        if self._alpha is None:
            return [self._joined(0)]
        return [self._alpha, self._joined(1)]

    def parts(self, edges: Tensor) -> _Parts:
        """The edges of each relation."""
        for each in self._known:
            if each.edges is edges or torch.equal(each.edges, edges):
                return each
        types = found_types(edges, self.entry, len(self.parameters))
        if types is None:
            raise ValueError(NOT_OF_THE_GRAPH.format(type(self.call.conv).__name__))
        self._known.append(_Parts(edges, types, len(self.parameters)))
        return self._known[-1]

    def record(self, relation: int, step: Sent | Logits, parts: _Parts) -> None:
        """Notes the step of a copy; ends its run, unless it is a softmax and the first step."""
        number = int(relation in self._found[0])
        self._found[number][relation] = step
        self._parts = [*self._parts[:number], parts]
        if number or isinstance(step, Sent):
            raise Stop
        self._run_others()

    def alpha(self) -> Tensor:
        """The softmax over the first steps of all copies."""
        if self._alpha is None:
            joined = self._joined(0)
            assert isinstance(joined, Tensor)
            self._alpha = joined
        return self._alpha

    def _run_others(self) -> None:
        while self._started < len(self.parameters):
            relation, self._started = self._started, self._started + 1
            tap = self._taps[relation]
            with suppress(Stop):
                run(self.call, tap, dict(self.parameters[relation]))
                raise too_few_messages(self.call.conv, self.done, tap.messages)

    def _joined(self, number: int) -> Sent | Tensor:
        found, parts = self._found[number], self._parts[number]
        steps = [found[relation] for relation in sorted(found)]
        sent = [step for step in steps if isinstance(step, Sent)]
        logits = [step for step in steps if isinstance(step, Logits)]
        if logits:
            src = parts.joined([step.src for step in logits], logits[0].dim)
            return logits[0]._replace(src=src).softmax()

        def rows(each: list[Tensor | None]) -> Tensor | None:
            known = [part for part in each if part is not None]
            return parts.joined(known, 0) if len(known) == len(each) else None

        message = parts.joined([step.message for step in sent], self.call.conv.node_dim)
        return Sent(message, rows([step.alpha for step in sent]), rows([step.update for step in sent]))


class _PartTap(Tap):
    """Gives the methods of a layer the edges of one relation until the next steps of a `_Round` are recorded."""

    def __init__(self, own_round: _Round, relation: int) -> None:
        super().__init__(own_round.call, own_round.done, stops=True)
        self.round, self.relation = own_round, relation
        self.parts: _Parts | None = None  # of the edges that a method gets; None while it gets all of them

    def propagate(self, edge_index: Any, *args: Any, **kwargs: Any) -> Any:
        if self._next_message() is not None:
            return super().propagate(edge_index, *args, **kwargs)
        kwargs = self._enter(edge_index, kwargs)
        self.seen.append(edge_index)
        return self._propagate(self.edges, *args, **kwargs)

    def edge_updater(self, edge_index: Any, *args: Any, **kwargs: Any) -> Any:
        if self._next_message() is not None:
            return super().edge_updater(edge_index, *args, **kwargs)
        kwargs = self._enter(edge_index, kwargs)
        out = self._edge_updater(self.edges, *args, **kwargs)
        rows = self._rows()
        self.edges, self.parts = edge_index, None
        if not isinstance(out, Tensor) or out.dim() == 0 or out.size(0) != rows.numel():
            raise Unsure
        self.update = out
        # what the layer does with rows of other edges is not used: copies of a row that occurs, not zeros to divide by
        filled = out.detach()[:1].expand(edge_index.size(1), *out.shape[1:])
        return filled.index_copy(0, rows, out)

    def message(self, *args: Any, **kwargs: Any) -> Tensor:
        if self._next_message() is not None:
            return super().message(*args, **kwargs)
        self.messages += 1
        out: Tensor = self._message(*args, **kwargs)
        self.count += 1
        rows, parts = self._rows(), self.parts
        assert parts is not None  # messages are computed inside of `propagate`
        check_sizes(out.size(self.conv.node_dim), rows.numel())
        alpha = getattr(self.conv, "_alpha", None)
        if not isinstance(alpha, Tensor) or alpha.dim() == 0:
            alpha = None
        elif alpha.size(0) == parts.edges.size(1):
            alpha = alpha.index_select(0, rows)
        elif alpha.size(0) != rows.numel():
            alpha = None
        self.round.record(self.relation, Sent(out, alpha, self.update), parts)
        raise AssertionError("a message ends the run of a copy")

    def softmax(self, src: Tensor, index: Tensor | None, ptr: Tensor | None, num_nodes: int | None, dim: int) -> Tensor:
        logits = Logits(src, index, ptr, num_nodes, dim)
        if self.edges is None or src.size(dim) != self.edges.size(1) or not may_be_ends(index, self.edges):
            return logits.softmax()
        number, self.count = self.count, self.count + 1
        if number < len(self.done):
            whole = self.done_alpha(number)
        else:
            parts = self.parts or self.round.parts(self.edges)
            if index is None or ptr is not None:
                raise Unsure
            if self.parts is None:
                logits = logits._replace(src=src.index_select(dim, self._rows(parts)))
            else:  # the receivers of all edges, where the layer has those of its part
                end = int(index.storage_offset() != self.edges.storage_offset())
                logits = logits._replace(target=parts.edges[end])
            self.round.record(self.relation, logits, parts)
            whole = self.round.alpha()
        return whole if self.parts is None else whole.index_select(dim, self._rows())

    def _enter(self, edge_index: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Takes the edges of the relation; returns the arguments with their rows. Ends a copy without edges."""
        if type(edge_index) is not Tensor or edge_index.layout != torch.strided:
            raise Unsure
        self.parts = self.round.parts(edge_index)
        self.edges = self.parts.own[self.relation]
        rows = self._rows()
        if not rows.numel():
            raise Stop
        return {name: self._own(name, value, edge_index.size(1), rows) for name, value in kwargs.items()}

    def _own(self, name: str, value: Any, count: int, rows: Tensor) -> Any:
        if not isinstance(value, Tensor) or value.dim() == 0 or name in self.round.arguments.of_others:
            return value
        dim = edge_dim(value, count, self.conv.node_dim)
        if (name in self.round.arguments.of_edges) != (dim is not None):
            raise Unsure
        return value if dim is None else value.index_select(dim, rows)

    def _rows(self, parts: _Parts | None = None) -> Tensor:
        parts = parts or self.parts
        assert parts is not None
        return parts.rows[self.relation]


def edge_dim(value: Tensor, count: int, node_dim: int) -> int | None:
    """The dimension in which a tensor has a row for each of ``count`` edges; None if there is none."""
    if value.dim() and value.size(0) == count:
        return 0
    here = -value.dim() <= node_dim < value.dim() and value.size(node_dim) == count
    return node_dim % value.dim() if here else None


def may_use_parts(conv: MessagePassing, entry: list[SplitEdgeIndex]) -> bool:
    """Whether a call may be computed in parts: not in traced code, for soft types, or where a sync is not allowed."""
    # hooks see the rows of all edges
    if torch.compiler.is_compiling() or getattr(conv, "explain", None) or has_any_hooks(conv):
        return False
    types = [each.edge_type for each in entry]
    if any(type(each) is not Tensor or each.dim() != 1 for each in types):
        return False
    if not any(each.is_cuda for each in types):
        return True
    return not torch.cuda.is_current_stream_capturing() and not torch.cuda.get_sync_debug_mode()
