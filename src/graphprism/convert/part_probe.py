"""Finds out whether a layer computes the message of an edge without other edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.modules.batchnorm import _NormBase
from torch.overrides import TorchFunctionMode

from graphprism.convert.current_split import SplitEdgeIndex
from graphprism.convert.layer_call import Call, run
from graphprism.convert.part_steps import NOT_IN_PARTS, EdgeArguments, edge_dim, steps_in_parts
from graphprism.convert.steps import Sent, Tap


def probe_parts(call: Call, calls: int, edges: list[Tensor]) -> EdgeArguments | None:
    """The arguments with rows of edges, if messages and logits of an edge depend on no other edges; else None.

    They are computed with all edges and in two parts, for several pairs of parts, without dropout and from values that
    differ from row to row. A layer with a batch norm gets all edges whatever comes out, as does one whose messages
    differ in training for another reason than dropout.

    Args:
        call: a call of a copy of the layer, which is changed.
        calls: how often it passes messages.
        edges: those of the call.
    """
    conv = call.conv
    if any(isinstance(module, _NormBase) for module in conv.modules()) or not all(each.numel() for each in edges):
        return None
    cases = [[SplitEdgeIndex(each, types) for each, types in zip(edges, case, strict=True)] for case in _halves(edges)]
    if not _shares_ends(cases[0]) or any(map(_is_one_part, cases)):
        return None
    generator = torch.Generator().manual_seed(0)
    call = call._replace(args=_varied(call.args, generator), kwargs=_varied(call.kwargs, generator))
    try:
        with torch.no_grad(), _NoDropout():
            conv.train()
            in_training = _Recorder(call)
            run(call, in_training, {})
            conv.eval()
            whole = _Recorder(call)
            run(call, whole, {})
            arguments = whole.arguments()
            if arguments is None or not _are_same(in_training.steps(), whole.steps()):
                return None
            for entry in cases:
                if not _are_same(steps_in_parts(call, [{}, {}], calls, entry, arguments), whole.steps()):
                    return None
    except NOT_IN_PARTS:
        return None
    return arguments


def _halves(edges: list[Tensor]) -> list[list[Tensor]]:
    """Relations of edges, one of 2 for each pair of nodes, for each sender and for each receiver.

    Parts that share senders and receivers show what depends on all edges of a node, the others what depends on an
    extreme row, which parts that share its sender both have.
    """
    # one number for a pair: `torch.unique` of columns takes longer than the messages
    pairs = [each[0] * (each.max() + 1) + each[1] for each in edges]
    numbers = [pairs, *([each[end] for each in edges] for end in (0, 1))]
    return [[torch.unique(each, return_inverse=True)[1] % 2 for each in case] for case in numbers]


def _shares_ends(case: list[SplitEdgeIndex]) -> bool:
    """Whether a node receives, and a node sends, along edges of both parts."""
    parts = [[each.edge_index[:, each.edge_type == part] for part in (0, 1)] for each in case]
    return all(any(bool(torch.isin(one[end], other[end]).any()) for one, other in parts) for end in (0, 1))


def _is_one_part(case: list[SplitEdgeIndex]) -> bool:
    return not all(bool((torch.cat([each.edge_type for each in case]) == part).any()) for part in (0, 1))


def _varied(value: Any, generator: torch.Generator) -> Any:
    """The arguments of a call with other values: equal rows, as of ones, would hide what depends on other edges."""
    if isinstance(value, Mapping):
        return {name: _varied(each, generator) for name, each in value.items()}
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(_varied(each, generator) for each in value)
    if not isinstance(value, Tensor) or value.layout != torch.strided or not value.is_floating_point():
        return value
    factor = 1 + torch.rand(value.shape, generator=generator).to(value.device, value.dtype)
    return value * factor


def _are_same(ours: list[Sent | Tensor], theirs: list[Sent | Tensor]) -> bool:
    """Whether two calls have the same messages and attentions."""
    if len(ours) != len(theirs):
        return False
    values = ([step.message if isinstance(step, Sent) else step for step in each] for each in (ours, theirs))
    # most layers give the same bits, and `torch.allclose` takes longer than the messages
    return all(
        torch.equal(one, other) or (one.shape == other.shape and torch.allclose(one, other, rtol=1e-4, atol=1e-6))
        for one, other in zip(*values, strict=True)
    )


class _Recorder(Tap):
    """Notes in which arguments of ``propagate`` and ``edge_updater`` edges have rows."""

    def __init__(self, call: Call) -> None:
        super().__init__(call, [], stops=False)
        self.rows: dict[str, set[bool]] = {}

    def propagate(self, edge_index: Any, *args: Any, **kwargs: Any) -> Any:
        self._note(edge_index, kwargs)
        return super().propagate(edge_index, *args, **kwargs)

    def edge_updater(self, edge_index: Any, *args: Any, **kwargs: Any) -> Any:
        self._note(edge_index, kwargs)
        return super().edge_updater(edge_index, *args, **kwargs)

    def _note(self, edge_index: Any, kwargs: Mapping[str, Any]) -> None:
        for name, value in kwargs.items():
            if isinstance(value, Tensor) and value.dim():
                has_rows = edge_dim(value, edge_index.size(1), self.conv.node_dim) is not None
                self.rows.setdefault(name, set()).add(has_rows)

    def steps(self) -> list[Sent | Tensor]:
        """The steps of the call."""
        return [step if isinstance(step, Sent) else step.softmax() for step, _ in self.made]

    def arguments(self) -> EdgeArguments | None:
        """The names of both kinds; None if a name is of both."""
        if any(len(each) == 2 for each in self.rows.values()):
            return None
        of_edges = frozenset(name for name, each in self.rows.items() if True in each)
        return EdgeArguments(of_edges, frozenset(self.rows) - of_edges)


class _NoDropout(TorchFunctionMode):
    """Makes dropout the identity."""

    _OFF = frozenset({functional.dropout, functional.alpha_dropout, functional.feature_alpha_dropout, torch.dropout})

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self._OFF:
            return args[0] if args else kwargs["input"]
        return func(*args, **(kwargs or {}))
