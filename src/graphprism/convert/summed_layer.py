"""Any message-passing layer of PyG whose weights act on sums of messages, with one copy of them per relation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import degree, scatter

from graphprism.convert.current_split import NOT_OF_THE_GRAPH, CurrentSplit, SplitEdgeIndex
from graphprism.convert.generic_layer import GenericLayer
from graphprism.convert.layer_call import Call, Stop, check_sizes, found_types, run
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

    def _statistics_of_copies(self) -> list[str]:
        return []  # norms see the messages, or the whole sums

    def _output(self, call: Call, stacks: Mapping[str, Tensor], entry: list[SplitEdgeIndex]) -> Any:
        call, count = call._replace(switch=None), self.current.num_relations
        parameters = [{name: stack[r] for name, stack in stacks.items()} for r in range(count)]
        return combined(call, split_sums(call, self.calls, entry, count), parameters, self.at)


class RelationSum(NamedTuple):
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
        self.reduced: list[RelationSum] = []
        self.sums: list[RelationSum] = []
        self.in_turn: list[RelationSum] = []
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

    def _at_once(self, *args: Any, **kwargs: Any) -> RelationSum | None:
        """One pass for all relations; None unless it gives a sum or a mean, of rows as the aggregation weighs them."""
        self.share, self.reduced = None, []
        own = vars(self.conv.aggr_module)
        own["reduce"] = self.reduce
        try:
            out = self._propagate(*args, **kwargs)
        finally:
            del own["reduce"]
        return self.reduced[0] if len(self.reduced) == 1 and out is self.reduced[0].zero else None

    def _in_turn(self, *args: Any, **kwargs: Any) -> RelationSum:
        """One pass for each relation, and one without messages."""
        self.sent, shares = None, self._shares()
        found = []
        for share in (torch.zeros_like(shares[0]), *shares):
            self.share = share
            found.append(self._propagate(*args, **kwargs))
        zero, *others = found
        self.in_turn.append(RelationSum(zero, [each - zero for each in others]))
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
        self.reduced.append(RelationSum(torch.zeros_like(parts[0]), parts))
        return self.reduced[-1].zero


def _times(rows: Tensor, share: Tensor, dim: int) -> Tensor:
    """Rows along ``dim``, each times its share, or zero."""
    share = share.view([-1 if axis == dim % rows.dim() else 1 for axis in range(rows.dim())])
    return torch.where(share, rows, 0) if share.dtype == torch.bool else rows * share.to(rows.dtype)


def combined(call: Call, splitter: _Splitter, parameters: Sequence[dict[str, Tensor]], at: str) -> Any:
    """The output of the layer with other parameters for the sums of each relation."""
    sums = splitter.sums
    zero = out = value_at(call, [each.zero for each in sums], {}, at)
    for r, own in enumerate(parameters):
        # the parameters of relations have the common ones as their mean: what does not depend on sums drops out
        out = out + (value_at(call, [each.zero + each.parts[r] for each in sums], own, at) - zero)
    return Given(call.conv, [each.whole for each in sums], at, out).run(call, copies(call.conv, splitter.updated))


def copies(conv: MessagePassing, names: Iterable[str] | None = None) -> dict[str, Tensor]:
    """Copies of buffers, all by default, for a call that leaves them as they are."""
    own = dict(conv.named_buffers())
    return {name: own[name].clone() for name in (own if names is None else names)}


def split_sums(call: Call, calls: int, entry: list[SplitEdgeIndex], num_relations: int) -> _Splitter:
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


class Given:
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
        """The next of the given sums."""
        self.count += 1
        if self.count > len(self.sums):
            raise ValueError(f"{type(self.conv).__name__} must pass messages {len(self.sums)} times, got more")
        return self.sums[self.count - 1].clone()  # layers write into it

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The output of the linear map: the given one, or its own, which ends the call."""
        if not self.is_given:
            self.output = self._forward(*args, **kwargs)
            if not torch.compiler.is_compiling():
                raise Stop
        elif not torch.compiler.is_compiling() and any(True for _ in self.module.buffers()):
            with torch.no_grad():  # for its buffers
                self._forward(*args, **kwargs)
        return self.output


def value_at(call: Call, sums: Sequence[Tensor], parameters: dict[str, Tensor], at: str) -> Tensor:
    """The output of the linear map ``at``, or of the layer, for given sums and other parameters."""
    given = Given(call.conv, sums, at)
    given.run(call, {**copies(call.conv), **parameters})
    if given.output is None:
        raise ValueError(f"{type(call.conv).__name__} must compute the output of `{at}` in every call, got none")
    return given.output
