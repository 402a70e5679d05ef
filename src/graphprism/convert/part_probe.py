"""Finds out whether a layer computes the message of an edge without other edges."""

from __future__ import annotations

import copy
import random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.modules.batchnorm import _NormBase
from torch.overrides import TorchFunctionMode
from torch_geometric.nn import MessagePassing

from graphprism.convert.current_split import SplitEdgeIndex
from graphprism.convert.layer_call import Call, edges_of_call, run
from graphprism.convert.part_steps import EdgeArguments, edge_dim, kinds, steps_in_parts
from graphprism.convert.softmax_switch import SoftmaxSwitch
from graphprism.convert.steps import Sent, Tap, whole_steps

# Edges of an example that are tried; of larger examples some are chosen.
_MOST_EDGES = 4096
_BLOCK = 64


def probe_parts(conv: MessagePassing, named: dict[str, Any], names: list[str], calls: int) -> EdgeArguments | None:
    """What `steps_in_parts` needs, if the messages and logits of an edge depend on no other edges; else None.

    They are computed from all edges and in two parts, whose copies have other parameters, for several pairs of parts,
    with other values than those of the call and without dropout: steps must be equal. Every copy gets all edges of a
    layer with a batch norm, of one that keeps tensors for later (but attention in ``_alpha``), and of one that in
    training draws random numbers or passes other messages, beside dropout. Two things go unseen: other edges that count
    in some calls only (beyond a threshold), and for gradients only.

    Args:
        conv: the layer before any call; it is copied.
        named: arguments of a call, by name.
        names: the parameters that messages depend on.
        calls: how often it passes messages.
    """
    if any(isinstance(module, _NormBase) for module in conv.modules()):
        return None
    device = next(conv.parameters()).device
    state = random.getstate()
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.no_grad(), _NoDropout():
            return _proven(conv, named, names, calls)
    except Exception:
        return None  # whatever the layer raises on values that it was not made for: it gets all edges
    finally:
        random.setstate(state)


def _proven(conv: MessagePassing, named: dict[str, Any], names: list[str], calls: int) -> EdgeArguments | None:
    known_kinds = kinds(named)
    named = _varied(_few_edges(named))
    edges = edges_of_call(named)
    cases = [[SplitEdgeIndex(each, types) for each, types in zip(edges, case, strict=True)] for case in _halves(edges)]
    if not _shares_ends(cases[0]) or any(map(_is_one_part, cases)):
        return None

    def new_call() -> Call:
        alone = edges[0] if len(edges) == 1 else None
        return Call(copy.deepcopy(conv), SoftmaxSwitch(type(conv)), alone, (), named)

    parameters = [_other_parameters(conv, names) for _ in range(2)]
    seen: list[_Recorder] = []
    for training in (False, True):
        call, numbers = new_call(), _random_states()
        call.conv.train(training)
        kept = _tensors(call.conv)
        seen.append(_Recorder(call))
        run(call, seen[-1], parameters[0])
        if not _is_unchanged(kept, _tensors(call.conv)) or _random_states() != numbers:
            return None
    rows = seen[0].rows
    of_edges = frozenset(name for name, each in rows.items() if True in each)
    if any(len(each) == 2 for each in rows.values()) or not _are_same(*(each.steps() for each in seen)):
        return None
    if not all(_has_different_rows(step, conv.node_dim) for step in seen[0].steps()):
        return None
    arguments = EdgeArguments(of_edges, frozenset(rows) - of_edges, known_kinds)
    for entry in cases:
        whole = whole_steps(new_call(), lambda: parameters, calls, entry)
        own = steps_in_parts(new_call(), parameters, calls, entry, arguments)
        if not _are_same(own, whole):
            return None
    return arguments


def _few_edges(named: dict[str, Any]) -> dict[str, Any]:
    """A call of a large graph with some of its edges: neighbours in their order by receiver, and by sender."""
    edges = edges_of_call(named)
    count = edges[0].size(1)
    if len(edges) > 1 or count <= _MOST_EDGES:
        return named
    starts = torch.linspace(0, count - _BLOCK, _MOST_EDGES // (2 * _BLOCK)).long()
    places = (starts[:, None] + torch.arange(_BLOCK)).flatten().to(edges[0].device)
    rows = torch.cat([end.argsort(stable=True)[places] for end in edges[0]]).unique()

    def chosen(value: Any) -> Any:
        if value is edges[0]:
            return value[:, rows]
        return value[rows] if isinstance(value, Tensor) and value.dim() and value.size(0) == count else value

    return {name: chosen(value) for name, value in named.items()}


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


def _varied(value: Any) -> Any:
    """Arguments with other values of the same signs, not larger: equal rows would hide what depends on other edges."""
    if type(value) is dict:
        return {name: _varied(each) for name, each in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_varied(each) for each in value)
    if not isinstance(value, Tensor) or value.layout != torch.strided or not value.is_floating_point():
        return value
    return value * (0.5 + 0.5 * torch.rand_like(value))


def _other_parameters(conv: MessagePassing, names: list[str]) -> dict[str, Tensor]:
    """Parameters near those of the layer: some begin at 0, and what they multiply counts only later."""
    own = dict(conv.named_parameters())
    return {
        name: own[name] + 0.3 * own[name].abs().mean().clamp(min=0.1) * torch.randn_like(own[name]) for name in names
    }


def _are_same(ours: list[Sent | Tensor], theirs: list[Sent | Tensor]) -> bool:
    """Whether two calls have the same messages and attentions."""
    pairs = zip(map(_value, ours), map(_value, theirs), strict=False)
    return len(ours) == len(theirs) and all(
        torch.equal(one, other)
        or (one.shape == other.shape and torch.allclose(one, other, rtol=1e-4, atol=1e-6 * float(other.abs().max())))
        for one, other in pairs
    )


def _has_different_rows(step: Sent | Tensor, node_dim: int) -> bool:
    """Whether a step says anything: rows that are almost equal hide what depends on other edges."""
    value, dim = (step.message, node_dim) if isinstance(step, Sent) else (step, 0)
    return bool((value - value.narrow(dim, 0, 1)).abs().max() > 0.01 * value.abs().max())


def _value(step: Sent | Tensor) -> Tensor:
    return step.message if isinstance(step, Sent) else step


def _tensors(conv: MessagePassing) -> dict[str, tuple[Tensor, int]]:
    """Tensors that a layer keeps, with the number of changes in place; not its parameters, nor PyG's attention."""
    found = {f"buffer {name}": buffer for name, buffer in conv.named_buffers()}
    for name, module in conv.named_modules():
        found |= {f"{name}.{key}": each for key, each in vars(module).items() if isinstance(each, Tensor)}
    found.pop("._alpha", None)
    return {name: (each, each._version) for name, each in found.items()}


def _is_unchanged(before: dict[str, tuple[Tensor, int]], after: dict[str, tuple[Tensor, int]]) -> bool:
    return before.keys() == after.keys() and all(
        tensor is after[name][0] and version == after[name][1] for name, (tensor, version) in before.items()
    )


def _random_states() -> list[Any]:
    """The states of generators that a layer may draw from."""
    states = [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [])]
    return [random.getstate(), *(state.tolist() for state in states)]


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

    def _note(self, edge_index: Any, kwargs: dict[str, Any]) -> None:
        for name, value in kwargs.items():
            if isinstance(value, Tensor) and value.dim():
                has_rows = edge_dim(value, edge_index.size(1), self.conv.node_dim) is not None
                self.rows.setdefault(name, set()).add(has_rows)

    def steps(self) -> list[Sent | Tensor]:
        """The steps of the call."""
        return [step if isinstance(step, Sent) else step.softmax() for step, _ in self.made]


class _NoDropout(TorchFunctionMode):
    """Makes dropout the identity."""

    _OFF = frozenset({functional.dropout, functional.alpha_dropout, functional.feature_alpha_dropout, torch.dropout})

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self._OFF:
            return args[0] if args else kwargs["input"]
        return func(*args, **(kwargs or {}))
