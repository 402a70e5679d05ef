"""Whether the weights of a layer act on sums of messages, and which: found by calls of the layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map
from torch_geometric.nn import Linear, MessagePassing

from graphprism.convert.current_split import SplitEdgeIndex
from graphprism.convert.generic_layer import NotConvertible
from graphprism.convert.layer_call import Call, edges_of_call, run
from graphprism.convert.mrs_model import argument_names, named_arguments
from graphprism.convert.summed_layer import Given, RelationSum, combined, copies, split_sums, value_at


def probe_sums(
    conv: MessagePassing, args: tuple[Any, ...], kwargs: dict[str, Any], calls: int
) -> tuple[list[str], str]:
    """Finds the parameters that act on sums of messages, and where: the argument ``at`` of `SummedLayer`.

    Raises unless sums over relations add up to the layer's own aggregation, and what follows is affine. A layer may
    look affine at the values of the example, or as it is initialised (a gate of zero): both are changed at random.

    Args:
        conv: a copy of the layer, which is changed.
        args: arguments of a call.
        kwargs: further arguments.
        calls: how often the layer passes messages.
    """
    if getattr(conv, "cached", False):
        raise NotConvertible("it caches its sums (`cached=True`)")
    conv.double().requires_grad_(True)
    generator = torch.Generator().manual_seed(0)

    def changed(value: Any, least: float = 0.0) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point() or value.layout != torch.strided:
            return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value
        # upwards, since roots and logarithms have to remain defined
        noise = least + 0.3 * torch.rand(value.shape, generator=generator, dtype=torch.float64)
        return value.detach().double() + noise.to(value.device)

    with torch.no_grad():
        for parameter in conv.parameters():
            parameter.copy_(changed(parameter, 0.1))
    call = Call(conv, None, None, *tree_map(changed, (args, kwargs)))
    device = next(conv.parameters()).device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        return _probed(call, calls, device)


def _probed(call: Call, calls: int, device: torch.device) -> tuple[list[str], str]:
    conv = call.conv
    edges = edges_of_call({**named_arguments(argument_names(conv.forward), call.args), **call.kwargs})
    typed = [SplitEdgeIndex(each, _mixed_types(each, conv.flow)) for each in edges]
    with torch.no_grad():
        like = _check_sums(call, calls, typed, device)
    if not all(each.numel() for each in like):
        raise NotConvertible("its sums in `example` are empty")
    first = [name for name, module in conv.named_modules() if isinstance(module, _LINEAR)]
    for at in ("", *first):
        names = _acting(call, like, at)
        if names and _is_layer(call, calls, typed, at, device):
            return names, at
    raise NotConvertible("its messages depend on no parameters, and no weights act on their sum alone")


def _mixed_types(edges: Tensor, flow: str) -> Tensor:
    """Relations of edges, one of 3 for each pair of nodes: a node gets messages of as many as it can."""
    ends = edges.flip(0) if flow == "source_to_target" else edges
    number: Tensor = torch.unique(ends, dim=1, return_inverse=True)[1] % 3  # sorted by receivers
    return number


def _check_sums(call: Call, calls: int, typed: list[SplitEdgeIndex], device: torch.device) -> list[Tensor]:
    """Raises unless the sums of relations add up to the layer's own, for messages of any sign, in both modes.

    Returns sums, for their sizes.
    """
    conv, own = call.conv, vars(call.conv)
    message = conv.message

    def drawn(*args: Any, **kwargs: Any) -> Tensor:
        like: Tensor = message(*args, **kwargs)
        generator = torch.Generator().manual_seed(0)  # the same messages each time
        return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like)

    own["message"] = drawn
    try:
        for training in (True, False):
            conv.train(training)
            for entry in (typed, [SplitEdgeIndex(each.edge_index, _scores(each.edge_type)) for each in typed]):
                _seed(device)
                splitter, whole = split_sums(call, calls, entry, 3), _Whole(conv)
                _seed(device)
                run(call, whole, {})
                if len(whole.sums) != calls:
                    raise NotConvertible(f"it passes messages {calls} times in one call, {len(whole.sums)} in another")
                pairs = zip(splitter.sums, whole.sums, strict=True)
                if not all(_is_close(each.whole, other) for each, other in pairs):
                    raise NotConvertible("its messages depend on no parameters, and are not added")
                if not all(map(_is_mixed, splitter.in_turn)):
                    raise NotConvertible("no node of `example` gets two messages, so that they need not be added")
        return whole.sums
    finally:
        del own["message"]


def _scores(types: Tensor) -> Tensor:
    """Scores that sum to one, (E, 3), other than 0 and 1."""
    return 0.2 + 0.4 * torch.nn.functional.one_hot(types, 3).double()


def _is_mixed(found: RelationSum) -> bool:
    """Whether a row has several relations: of a single message the maximum, too, is the sum."""
    parts = torch.stack(found.parts).abs()
    return bool(((parts > 1e-6 * parts.max()).sum(dim=0) > 1).any()) if parts.numel() else False


def _is_layer(call: Call, calls: int, typed: list[SplitEdgeIndex], at: str, device: torch.device) -> bool:
    """Whether equal parameters give the layer: not if it calls a linear map twice, or drops inputs out before sums."""
    conv = call.conv.eval()
    with torch.no_grad():
        splitter = split_sums(call, calls, typed, 3)
        found, expected = combined(call, splitter, [{}, {}, {}], at), conv(*call.args, **call.kwargs)
        if not _is_close_tree(found, expected):
            return False
        if not at:
            return True
        conv.train()
        given = [each.whole for each in splitter.sums]
        out = value_at(call, given, {}, at)
        both = []
        for seed in (1, 2):
            _seed(device, seed)
            both.append(_Reseeded(conv, given, at, out, device).run(call, copies(conv)))
        return _is_close_tree(*both)


class _Reseeded(Given):
    """Resets the random state with the last sum: what remains of another state before is the noise before sums."""

    def __init__(
        self, conv: MessagePassing, sums: Sequence[Tensor], at: str, output: Tensor, device: torch.device
    ) -> None:
        super().__init__(conv, sums, at, output)
        self.device = device

    def propagate(self, *_: Any, **__: Any) -> Tensor:
        out = super().propagate()
        if self.count == len(self.sums):
            _seed(self.device)
        return out


def _seed(device: torch.device, seed: int = 0) -> None:
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)


_LINEAR = (torch.nn.Linear, Linear)


class _Whole:
    """Replaces methods of a layer during a call: records what its passes of messages give."""

    def __init__(self, conv: MessagePassing) -> None:
        self._propagate, self.sums = conv.propagate, list[Tensor]()

    def replaced(self) -> dict[str, Any]:
        """Attributes of the layer during the call."""
        return {"propagate": self.propagate}

    def propagate(self, *args: Any, **kwargs: Any) -> Tensor:
        out: Tensor = self._propagate(*args, **kwargs)
        self.sums.append(out.clone())
        return out


def _acting(call: Call, like: Sequence[Tensor], at: str) -> list[str]:
    """Parameters that act on the sums in the output of ``at``; none if it is not affine, or does not depend on them."""
    generator = torch.Generator().manual_seed(0)

    def draw() -> list[Tensor]:
        return [torch.randn(each.shape, dtype=each.dtype, generator=generator).to(each.device) for each in like]

    one, two, none = draw(), draw(), [torch.zeros_like(each) for each in like]
    # opposite sums leave no activation linear, and large ones no bound out of reach
    pairs = [(one, two), (one, _scaled(one, -1)), (_scaled(one, 1e4), _scaled(two, 1e4))]
    try:
        for training in (True, False):
            call.conv.train(training)
            for left, right in pairs:
                both = [a + b for a, b in zip(left, right, strict=True)]
                with torch.no_grad():
                    values = [value_at(call, each, {}, at) for each in (left, right, both, none)]
                if not all(isinstance(each, Tensor) and each.is_floating_point() for each in values):
                    return []
                scale = torch.stack([each.abs().max() for each in values]).max() if values[0].numel() else 0
                if not _is_close(values[0] + values[1], values[2] + values[3], scale):
                    return []
        sums = [each.requires_grad_() for each in one]
        with torch.enable_grad():
            value = value_at(call, sums, {}, at)
            if not value.requires_grad:
                return []
            slopes = torch.autograd.grad(value.sum(), sums, create_graph=True, allow_unused=True)
            total = sum(each.sum() for each in slopes if each is not None and each.requires_grad)
            if not isinstance(total, Tensor):
                return []
            # the slope of an affine map depends on what acts on its input, and not on biases and other inputs
            parameters = dict(call.conv.named_parameters())
            found = torch.autograd.grad(total, list(parameters.values()), allow_unused=True)
    except (ValueError, RuntimeError):
        if not at:
            raise
        return []  # not called, or with what cannot be given
    return [key for key, grad in zip(parameters, found, strict=True) if grad is not None]


def _scaled(rows: Sequence[Tensor], factor: float) -> list[Tensor]:
    return [factor * each for each in rows]


def _is_close(one: Tensor, other: Tensor, scale: Any = None) -> bool:
    """Equal up to rounding in float32, which a layer may compute in."""
    if one.shape != other.shape or not one.numel():
        return one.shape == other.shape
    scale = other.abs().max() if scale is None else scale
    return bool((one - other).abs().max() <= 1e-5 * max(float(scale), 1e-9))


def _is_close_tree(one: Any, other: Any) -> bool:
    """Outputs of a layer that are close: a tensor, or any structure of them."""
    (ones, spec), (others, like) = tree_flatten(one), tree_flatten(other)
    pairs = zip(ones, others, strict=False)
    return spec == like and all(_is_close(a, b) if isinstance(a, Tensor) else True for a, b in pairs)
