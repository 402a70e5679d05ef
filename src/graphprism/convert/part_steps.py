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
    """What a probe saw of a layer whose messages depend on no other edges, see `probe_parts`.

    Attributes:
        of_edges: tensors that the layer gives to ``propagate`` and ``edge_updater`` with a row per edge.
        of_others: those without.
        kinds: what the layer was called with, see `kinds`.
    """

    of_edges: frozenset[str]
    of_others: frozenset[str]
    kinds: dict[str, Any]


class Unsure(Exception):
    """A call differs from those of the probe, so that its copies must get all edges."""


def kinds(named: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call as far as messages may read other edges for them: not their tensors and numbers."""
    return {name: _kind(value) for name, value in named.items() if value is not None}


def _kind(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_kind(each) for each in value]
    if isinstance(value, Mapping):
        return {key: _kind(each) for key, each in value.items()}
    return value if isinstance(value, (bool, str)) or value is None else type(value).__name__


def may_use_parts(
    conv: MessagePassing, named: Mapping[str, Any], entry: list[SplitEdgeIndex], arguments: EdgeArguments
) -> bool:
    """Whether a call with these arguments by name may be computed in parts.

    Not if its arguments are other ones than those of the probe, in traced code, with hooks, which see the rows of all
    edges, for soft types, or where a host-device sync is not allowed.
    """
    if torch.compiler.is_compiling() or getattr(conv, "explain", None) or has_any_hooks(conv):
        return False
    types = [each.edge_type for each in entry]
    if any(type(each) is not Tensor or each.dim() != 1 for each in types) or kinds(named) != arguments.kinds:
        return False
    if not any(each.is_cuda for each in types):
        return True
    return not torch.cuda.is_current_stream_capturing() and not torch.cuda.get_sync_debug_mode()


def steps_in_parts(
    call: Call,
    parameters: Sequence[Mapping[str, Tensor]],
    calls: int,
    entry: list[SplitEdgeIndex],
    arguments: EdgeArguments,
) -> list[Sent | Tensor]:
    """All steps of a call with the rows of every edge from the copy of its relation.

    Raises `Unsure`, or whatever a layer raises on some of the edges, if it cannot be done.

    Args:
        call: the call.
        parameters: of each copy, by name.
        calls: how often the layer passes messages.
        entry: the edges of the call with their relations.
        arguments: what the edges of one relation have rows in.
    """
    known = _KnownParts(call.conv, entry, len(parameters))
    done: list[Sent | Tensor] = []
    while sum(isinstance(each, Sent) for each in done) < calls:
        found: list[Sent | Logits] = []
        parts: _Parts | None = None
        for relation, own in enumerate(parameters):
            tap = _PartTap(call, done, known, arguments, relation)
            with suppress(Stop):
                run(call, tap, dict(own))
                raise too_few_messages(call.conv, done, tap.messages)
            if tap.made:
                if parts is not None and tap.parts_made is not parts:
                    raise Unsure  # the copies make different edges, as by dropout
                parts = tap.parts_made
                found.append(tap.made[0][0])
        if parts is None:
            raise Unsure  # no relation has edges
        done.append(_joined(found, parts, call.conv.node_dim))
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
        counts = torch.bincount(types, minlength=num_relations).tolist()  # a host-device sync
        if len(counts) > num_relations:
            raise Unsure  # a relation that there is not
        self.rows: Sequence[Tensor] = place.split(counts)
        self.own = [each.contiguous() for each in edges.index_select(1, place).split(counts, dim=1)]
        number = torch.arange(place.numel(), device=place.device)
        self._inverse = torch.empty_like(place).scatter_(0, place, number)

    def joined(self, parts: list[Tensor], dim: int) -> Tensor:
        """Rows of all edges in their order, from those of each relation that has edges."""
        rows = torch.cat(parts, dim)
        check_sizes(rows.size(dim), self._inverse.numel())
        return rows.index_select(dim, self._inverse)


class _KnownParts:
    """The parts of all edges that a call passes messages along."""

    def __init__(self, conv: MessagePassing, entry: list[SplitEdgeIndex], num_relations: int) -> None:
        self.conv, self.entry, self.num_relations = conv, entry, num_relations
        self._known: list[_Parts] = []

    def of(self, edges: Tensor) -> _Parts:
        """The edges of each relation."""
        for each in self._known:
            if each.edges is edges:
                return each
            # every copy makes its own self-loops; but of the sets of edges that a layer gets two may be equal
            is_given = self._is_given(edges) or self._is_given(each.edges)
            if not is_given and torch.equal(each.edges, edges):
                return each
        types = found_types(edges, self.entry, self.num_relations)
        if types is None:
            raise ValueError(NOT_OF_THE_GRAPH.format(type(self.conv).__name__))
        self._known.append(_Parts(edges, types, self.num_relations))
        return self._known[-1]

    def _is_given(self, edges: Tensor) -> bool:
        return any(edges is each.edge_index for each in self.entry)


class _PartTap(Tap):
    """Gives the methods of a layer the edges of one relation until the next step, which it records."""

    def __init__(
        self,
        call: Call,
        done: Sequence[Sent | Tensor],
        known: _KnownParts,
        arguments: EdgeArguments,
        relation: int,
    ) -> None:
        super().__init__(call, done, stops=True)
        self.known, self.arguments, self.relation = known, arguments, relation
        self.parts: _Parts | None = None  # of the edges that a method gets; None while it gets all of them
        self.parts_made: _Parts | None = None  # of the edges of the recorded step

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
        rows = self._rows(self.parts)
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
        parts, rows = self.parts, self._rows(self.parts)
        self.messages += 1
        out: Tensor = self._message(*args, **kwargs)
        check_sizes(out.size(self.conv.node_dim), rows.numel())
        alpha = getattr(self.conv, "_alpha", None)
        if not isinstance(alpha, Tensor) or alpha.dim() == 0:
            alpha = None
        elif alpha.size(0) == self.seen[-1].size(1):
            alpha = alpha.index_select(0, rows)
        elif alpha.size(0) != rows.numel():
            alpha = None
        self._record_part(Sent(out, alpha, self.update), parts)
        return out

    def softmax(self, src: Tensor, index: Tensor | None, ptr: Tensor | None, num_nodes: int | None, dim: int) -> Tensor:
        logits = Logits(src, index, ptr, num_nodes, dim)
        if self.edges is None or src.size(dim) != self.edges.size(1) or not may_be_ends(index, self.edges):
            return logits.softmax()
        number, self.count = self.count, self.count + 1
        if number < len(self.done):
            alpha = self.done_alpha(number)
            return alpha if self.parts is None else alpha.index_select(dim, self._rows(self.parts))
        parts = self.parts or self.known.of(self.edges)
        if index is None or ptr is not None:
            raise Unsure
        if self.parts is None:
            logits = logits._replace(src=src.index_select(dim, self._rows(parts)))
        else:  # the receivers of all edges, where the layer has those of its part
            end = int(index.storage_offset() != self.edges.storage_offset())
            logits = logits._replace(target=parts.edges[end])
        self._record_part(logits, parts)
        return logits.src

    def _record_part(self, step: Sent | Logits, parts: _Parts | None) -> None:
        assert parts is not None
        self.parts_made = parts
        self._record(step, parts.edges)

    def _enter(self, edge_index: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Takes the edges of the relation; returns the arguments with their rows. Ends a copy without edges."""
        if type(edge_index) is not Tensor or edge_index.layout != torch.strided:
            raise Unsure
        self.parts = self.known.of(edge_index)
        self.edges = self.parts.own[self.relation]
        rows = self._rows(self.parts)
        if not rows.numel():
            raise Stop
        return {name: self._own(name, value, edge_index.size(1), rows) for name, value in kwargs.items()}

    def _own(self, name: str, value: Any, count: int, rows: Tensor) -> Any:
        if not isinstance(value, Tensor) or value.dim() == 0 or name in self.arguments.of_others:
            return value
        dim = edge_dim(value, count, self.conv.node_dim)
        if (name in self.arguments.of_edges) != (dim is not None):
            raise Unsure
        return value if dim is None else value.index_select(dim, rows)

    def _rows(self, parts: _Parts | None) -> Tensor:
        if parts is None:
            raise Unsure  # a message outside of `propagate`
        return parts.rows[self.relation]


def edge_dim(value: Tensor, count: int, node_dim: int) -> int | None:
    """The dimension in which a tensor has a row for each of ``count`` edges; None if there is none."""
    if value.dim() and value.size(0) == count:
        return 0
    here = -value.dim() <= node_dim < value.dim() and value.size(node_dim) == count
    return node_dim % value.dim() if here else None


def _joined(steps: list[Sent | Logits], parts: _Parts, node_dim: int) -> Sent | Tensor:
    """A step of all edges; of logits the softmax."""
    sent = [step for step in steps if isinstance(step, Sent)]
    logits = [step for step in steps if isinstance(step, Logits)]
    if logits:
        src = parts.joined([step.src for step in logits], logits[0].dim)
        return logits[0]._replace(src=src).softmax()

    def rows(each: list[Tensor | None]) -> Tensor | None:
        known = [part for part in each if part is not None]
        return parts.joined(known, 0) if len(known) == len(each) else None

    message = parts.joined([step.message for step in sent], node_dim)
    return Sent(message, rows([step.alpha for step in sent]), rows([step.update for step in sent]))
