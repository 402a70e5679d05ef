"""Any message-passing layer of PyG whose weights act on sums of messages, with one copy of them per relation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map
from torch_geometric.nn import Linear, MessagePassing
from torch_geometric.utils import degree, scatter

from graphprism.convert.current_split import NOT_OF_THE_GRAPH, CurrentSplit, SplitEdgeIndex
from graphprism.convert.generic_layer import GenericLayer, NotConvertible
from graphprism.convert.layer_call import Call, Stop, check_sizes, edges_of_call, found_types, run
from graphprism.convert.mrs_model import argument_names, named_arguments
from graphprism.convert.own_layers import check_edges


class SummedLayer(GenericLayer):
    r"""A message-passing layer whose weights act on the sums of messages: the sum of each relation has its own copy.

    .. math:: f_\theta(\mathbf{0}) + \sum_r \big( f_{\theta_r}(\mathbf{s}_r) - f_\theta(\mathbf{0}) \big), \qquad
        \mathbf{s}_{r,i} = \sum_{e = (j, i)} [r(e) = r] \, \psi(e), \qquad
        \theta_r = \theta + \frac{1}{\sqrt{1 + \lambda}} \sum_k h_{rk} \mathbf{D}_k

    where :math:`f_\theta` is the layer as a function of its sums, which must be affine, :math:`\psi(e)` are its
    messages, which have no parameters, and :math:`\mathbf{D}_k = 0` initially. With equal parameters this is
    :math:`f_\theta(\sum_r \mathbf{s}_r)`, the layer. A mean and a softmax aggregation are sums with coefficients of the
    whole graph. If a layer passes messages several times, each time has sums by relation, and the next one gets the
    whole sum. With soft types a message of relation :math:`r` is :math:`s_{er} \psi(e)`.

    Where the layer is not affine, as with a network behind the sum, :math:`f` is its first linear map whose output is:
    that output is computed as above, and all else with the whole sums, as in `MRSGINConv`.

    Time: R + 1 passes over what follows the sums. The sums of all relations take as long as one, unless types are soft
    or the layer has an ``update`` of its own. `torch.compile` and `torch.export` trace the layer as they do a
    `GenericLayer`, also if it makes edges.

    Args:
        conv: the layer; owned by this module from now on.
        names: the parameters that act on sums.
        calls: how often it passes messages.
        at: name of the linear map whose output is :math:`f`; empty for the output of the layer.
        current: source of the relations of edges.
        start: ``"shared"``, or ``"independent"`` to draw new parameters for each relation.
        decay: :math:`\lambda`, how strongly relations are tied to the common parameters.
        deviation: ``"full"``, or ``"diagonal"`` for one factor for each row of a matrix.
    """

    def __init__(
        self,
        conv: MessagePassing,
        names: list[str],
        calls: int,
        at: str,
        current: CurrentSplit,
        start: str,
        decay: float,
        deviation: str = "full",
    ) -> None:
        # each pass of messages runs once, so that compiled code may make edges in it
        super().__init__(conv, names, calls, False, current, start, decay, deviation)
        self.at = at

    def _output(self, call: Call, stacks: Mapping[str, Tensor], entry: list[SplitEdgeIndex]) -> Any:
        call, count = call._replace(switch=None), self.current.num_relations
        parameters = [{name: stack[r] for name, stack in stacks.items()} for r in range(count)]
        return _combined(call, _split(call, self.calls, entry, count), parameters, self.at)


class _Sum(NamedTuple):
    """What one pass of messages gives without messages, and what the messages of each relation add to it."""

    zero: Tensor
    parts: list[Tensor]

    @property
    def whole(self) -> Tensor:
        """What the pass gives."""
        return self.zero + torch.stack(self.parts).sum(dim=0)


class _Splitter:
    """Replaces methods of a layer during a call: records the sums of all relations of the first ``calls`` passes."""

    def __init__(self, call: Call, calls: int, entry: list[SplitEdgeIndex], num_relations: int) -> None:
        conv = self.conv = call.conv
        self.calls, self.entry, self.num_relations = calls, entry, num_relations
        self._propagate, self._message, self._reduce = conv.propagate, conv.message, conv.aggr_module.reduce
        self.types = torch.empty(0)
        self.sent: Tensor | None = None
        self.share: Tensor | None = None
        self.reduced: list[_Sum] = []
        self.sums: list[_Sum] = []
        self.in_turn: list[_Sum] = []
        self.updated: list[str] = []

    def replaced(self) -> dict[str, Any]:
        """Attributes of the layer during the call."""
        # the fused product of a sorted `EdgeIndex` has no messages
        return {"propagate": self.propagate, "message": self.message, "fuse": False}

    def propagate(self, edge_index: Any, *args: Any, **kwargs: Any) -> Tensor:
        if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided:
            check_edges(edge_index)
        types = found_types(edge_index, self.entry, self.num_relations)
        if types is None:
            raise ValueError(NOT_OF_THE_GRAPH.format(type(self.conv).__name__))
        self.types = types
        found = self._at_once(edge_index, *args, **kwargs) or self._in_turn(edge_index, *args, **kwargs)
        self.sums.append(found)
        if len(self.sums) == self.calls and not torch.compiler.is_compiling():
            raise Stop
        return found.whole

    def _at_once(self, *args: Any, **kwargs: Any) -> _Sum | None:
        """One pass for all relations; None unless it gives a sum or a mean, of rows as the aggregation weighs them."""
        self.share, self.reduced = None, []
        own = vars(self.conv.aggr_module)
        own["reduce"] = self.reduce
        try:
            out = self._propagate(*args, **kwargs)
        finally:
            del own["reduce"]
        return self.reduced[0] if len(self.reduced) == 1 and out is self.reduced[0].zero else None

    def _in_turn(self, *args: Any, **kwargs: Any) -> _Sum:
        """One pass for each relation, and one without messages."""
        self.sent, shares = None, self._shares()
        found = []
        for share in (torch.zeros_like(shares[0]), *shares):
            self.share = share
            found.append(self._propagate(*args, **kwargs))
        zero, *others = found
        self.in_turn.append(_Sum(zero, [each - zero for each in others]))
        return self.in_turn[-1]

    def _shares(self) -> list[Tensor]:
        """The share of each relation in the edges, (E,), a boolean or a score."""
        if self.types.dim() == 1:
            return [self.types == r for r in range(self.num_relations)]
        return list(self.types.unbind(dim=1))

    def message(self, *args: Any, **kwargs: Any) -> Tensor:
        """The messages; in turns they are computed once, and multiplied by the share of the relation."""
        dim = self.conv.node_dim
        if self.share is None:
            out: Tensor = self._message(*args, **kwargs)
            check_sizes(out.size(dim), self.types.size(0))
            return out
        if self.sent is None:
            self.sent = self._message(*args, **kwargs)
            check_sizes(self.sent.size(dim), self.types.size(0))
        return _times(self.sent, self.share, dim)

    def reduce(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        reduce: str = "sum",
    ) -> Tensor:
        """Records the sum or the mean of the rows of each relation, and returns zeros."""
        if reduce not in ("sum", "add", "mean") or index is None or x.size(dim) != self.types.size(0):
            out: Tensor = self._reduce(x, index, ptr, dim_size, dim, reduce)
            return out
        count, axis = self.num_relations, dim % x.dim()
        size = int(index.max()) + 1 if dim_size is None else dim_size
        if self.types.dim() == 1:
            place = index * count + self.types  # all relations in one sum
            parts = list(scatter(x, place, axis, size * count).unflatten(axis, (size, count)).unbind(axis + 1))
        else:
            parts = [scatter(_times(x, share, axis), index, axis, size) for share in self._shares()]
        if reduce == "mean":
            number = degree(index, size, x.dtype).clamp(min=1)
            parts = [_times(part, 1 / number, axis) for part in parts]
        self.reduced.append(_Sum(torch.zeros_like(parts[0]), parts))
        return self.reduced[-1].zero


def _times(rows: Tensor, share: Tensor, dim: int) -> Tensor:
    """Rows along ``dim``, each times its share, or zero."""
    share = share.view([-1 if axis == dim % rows.dim() else 1 for axis in range(rows.dim())])
    return torch.where(share, rows, 0) if share.dtype == torch.bool else rows * share.to(rows.dtype)


def _combined(call: Call, splitter: _Splitter, parameters: Sequence[dict[str, Tensor]], at: str) -> Any:
    """The output of the layer with other parameters for the sums of each relation."""
    sums = splitter.sums
    zero = out = _value(call, [each.zero for each in sums], {}, at)
    for r, own in enumerate(parameters):
        # the parameters of relations have the common ones as their mean: what does not depend on sums drops out
        out = out + (_value(call, [each.zero + each.parts[r] for each in sums], own, at) - zero)
    return _Given(call.conv, [each.whole for each in sums], at, out).run(call, _copies(call.conv, splitter.updated))


def _copies(conv: MessagePassing, names: Iterable[str] | None = None) -> dict[str, Tensor]:
    """Copies of buffers, all by default, for a call that leaves them as they are."""
    own = dict(conv.named_buffers())
    return {name: own[name].clone() for name in (own if names is None else names)}


def _split(call: Call, calls: int, entry: list[SplitEdgeIndex], num_relations: int) -> _Splitter:
    """The sums of relations, and the buffers that the layer updates on the way to them: no other call has to."""
    splitter, before = _Splitter(call, calls, entry, num_relations), _versions(call.conv)
    with suppress(Stop):
        run(call, splitter, {})
    if len(splitter.sums) < calls:
        raise ValueError(f"{type(call.conv).__name__} must pass messages {calls} times, got {len(splitter.sums)} times")
    del splitter.sums[calls:]
    after = _versions(call.conv)
    # compiled code has run the call to its end
    found = {name for name in before if torch.compiler.is_compiling() or before[name] != after.get(name)}
    # running statistics have no versions, unlike the count beside them
    parts = {name.rpartition(".")[0] for name in found} - {""}
    splitter.updated = [name for name in before if name in found or name.rpartition(".")[0] in parts]
    return splitter


def _versions(conv: MessagePassing) -> dict[str, tuple[int, int]]:
    """Identity and version of each buffer; tensors of ``torch.inference_mode`` and in compiled code have none."""
    named = dict(conv.named_buffers())
    if torch.compiler.is_compiling():
        return dict.fromkeys(named, (0, 0))
    return {name: (id(buffer), 0 if buffer.is_inference() else buffer._version) for name, buffer in named.items()}


class _Given:
    """Replaces methods of a layer during a call: gives the sums, and the output of ``at``, or of the layer if empty.

    Without an ``output`` it is recorded, and the call aborted: hooks see the last call of the layer alone.
    """

    def __init__(
        self, conv: MessagePassing, sums: Sequence[Tensor], at: str = "", output: Tensor | None = None
    ) -> None:
        self.conv, self.sums, self.output = conv, sums, output
        self.is_given = output is not None
        self.module = conv.get_submodule(at)
        self._forward = self.module.forward
        self.count = 0

    def replaced(self) -> dict[str, Any]:
        """Attributes of the layer during the call."""
        return {"propagate": self.propagate}

    def run(self, call: Call, parameters: dict[str, Tensor]) -> Any:
        """Calls the layer; None if that is aborted."""
        own = vars(self.module)
        before = own.get("forward")
        own["forward"] = self.forward
        try:
            with suppress(Stop):
                return run(call, self, parameters)
        finally:
            del own["forward"]
            if before is not None:
                own["forward"] = before
        return None

    def propagate(self, *_: Any, **__: Any) -> Tensor:
        self.count += 1
        if self.count > len(self.sums):
            raise ValueError(f"{type(self.conv).__name__} must pass messages {len(self.sums)} times, got more")
        return self.sums[self.count - 1].clone()  # layers write into it

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if not self.is_given:
            self.output = self._forward(*args, **kwargs)
            if not torch.compiler.is_compiling():
                raise Stop
        elif not torch.compiler.is_compiling() and any(True for _ in self.module.buffers()):
            with torch.no_grad():  # for its buffers
                self._forward(*args, **kwargs)
        return self.output


def _value(call: Call, sums: Sequence[Tensor], parameters: dict[str, Tensor], at: str) -> Tensor:
    """The output of the linear map ``at``, or of the layer, for given sums and other parameters."""
    given = _Given(call.conv, sums, at)
    given.run(call, {**_copies(call.conv), **parameters})
    if given.output is None:
        raise ValueError(f"{type(call.conv).__name__} must compute the output of `{at}` in every call, got none")
    return given.output


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
                splitter, whole = _split(call, calls, entry, 3), _Whole(conv)
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


def _is_mixed(found: _Sum) -> bool:
    """Whether a row has several relations: of a single message the maximum, too, is the sum."""
    parts = torch.stack(found.parts).abs()
    return bool(((parts > 1e-6 * parts.max()).sum(dim=0) > 1).any()) if parts.numel() else False


def _is_layer(call: Call, calls: int, typed: list[SplitEdgeIndex], at: str, device: torch.device) -> bool:
    """Whether equal parameters give the layer: not if it calls a linear map twice, or drops inputs out before sums."""
    conv = call.conv.eval()
    with torch.no_grad():
        splitter = _split(call, calls, typed, 3)
        found, expected = _combined(call, splitter, [{}, {}, {}], at), conv(*call.args, **call.kwargs)
        if not _is_close_tree(found, expected):
            return False
        if not at:
            return True
        conv.train()
        given = [each.whole for each in splitter.sums]
        out = _value(call, given, {}, at)
        both = []
        for seed in (1, 2):
            _seed(device, seed)
            both.append(_Reseeded(conv, given, at, out, device).run(call, _copies(conv)))
        return _is_close_tree(*both)


class _Reseeded(_Given):
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
                    values = [_value(call, each, {}, at) for each in (left, right, both, none)]
                if not all(isinstance(each, Tensor) and each.is_floating_point() for each in values):
                    return []
                scale = torch.stack([each.abs().max() for each in values]).max() if values[0].numel() else 0
                if not _is_close(values[0] + values[1], values[2] + values[3], scale):
                    return []
        sums = [each.requires_grad_() for each in one]
        with torch.enable_grad():
            value = _value(call, sums, {}, at)
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
