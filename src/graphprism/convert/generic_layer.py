"""Any message-passing layer of PyG, with one copy per relation of the parameters that its messages depend on."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch_geometric.nn import FAConv, MessagePassing

from graphprism.convert.current_split import CurrentSplit, SplitEdgeIndex
from graphprism.convert.layer_call import Call, edges_of_call, found_types, run
from graphprism.convert.mrs_model import argument_names, is_sparse_adj, named_arguments
from graphprism.convert.own_layers import check_edges
from graphprism.convert.part_probe import probe_parts
from graphprism.convert.part_steps import EdgeArguments, may_use_parts, steps_in_parts
from graphprism.convert.softmax_switch import SoftmaxSwitch
from graphprism.convert.steps import Sent, Tap, whole_steps, with_steps
from graphprism.nn.conv.relational_weight import Together, check_start, deviation_size
from graphprism.nn.conv.self_loops import weight_with_loops
from graphprism.ops.backends import is_traced

# before, compiled code could not undo that methods are replaced during a call
_UNTRACED = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13)


class NotConvertible(ValueError):
    """A convolution cannot be converted; the message gives the reason."""


class GenericLayer(torch.nn.Module):
    r"""A message-passing layer whose message along an edge comes from the copy of the edge's relation.

    .. math:: \mathbf{x}'_i = \phi \Big( \mathbf{x}_i, \bigoplus_{e = (j, i)} \psi_{\theta_{r(e)}}(e) \Big), \qquad
        \theta_r = \theta + \frac{1}{\sqrt{1 + \lambda}} \sum_k h_{rk} \mathbf{D}_k

    where :math:`\psi_{\theta_r}(e)` is the message of the layer with the parameters :math:`\theta_r` on the whole
    graph, so that its norms are over all edges, :math:`\bigoplus` and :math:`\phi` are the layer's aggregation and
    update, applied once, with :math:`\theta`, and :math:`\mathbf{D}_k = 0` initially. With soft types a message is
    :math:`\sum_r s_{er} \psi_{\theta_r}(e)`. If a layer passes messages several times, they are selected by relation
    each time. So are the logits of an attention: PyG's ``softmax`` in a method of the layer gets, for each edge, the
    logit of the copy of its relation, so that the attention of a node sums to one, as in `MRSGATConv`. Its ``index``
    must be a row of ``edge_index``, as in ``message``. A softmax over some of the edges, in a decorated method
    (attention of ``HypergraphConv``) or one that is called by ``super()``, or computed in another way stays that of
    each copy.

    A copy gets the edges of its relation alone where the message of an edge reads no other edges, as found by a probe
    when the layer is converted (see `probe_parts`). Where it does (norms over edges, batch norms), in compiled code,
    with soft types, with hooks on the layer and with other arguments than those of the probe, every copy computes all
    messages, and with an attention all logits before: time then grows with R. ``edge_arguments = None`` forces it. Each
    copy has running statistics of its own, since its batch norms see its own rows; a call updates them once, a layer
    that passes messages several times once for each. Each pass draws its own dropout: where a layer drops out its input
    and reads it in messages and beside them, the two have different masks.

    `torch.compile` traces the layer from torch 2.13 on, also with ``fullgraph=True`` if the layer itself can be traced
    and relations are given, and `torch.export` does. Older versions run it eagerly: during a call ``message``,
    ``propagate`` and ``edge_updater`` of the layer are replaced, which they cannot trace. Compiled code runs each copy
    to the end, and leaves out what no output needs. A layer that passes messages along edges that it makes from those
    that it gets, such as self-loops, is traced without gradients only: each copy has its own number of edges, which
    inductor loses on the way to the backward pass.

    Args:
        conv: the layer; owned by this module from now on.
        names: the parameters that messages depend on.
        calls: how often it passes messages.
        makes_edges: whether it passes them along other tensors of edges than those it gets.
        current: source of the relations of edges.
        start: ``"shared"``, or ``"independent"`` to draw new parameters for each relation.
        decay: :math:`\lambda`, how strongly relations are tied to the common parameters.
        deviation: ``"full"``, or ``"diagonal"`` for one factor for each row of a matrix.
        edge_arguments: what the edges of one relation have rows in, if messages depend on no other edges; None: every
            copy gets all edges.
    """

    def __init__(
        self,
        conv: MessagePassing,
        names: list[str],
        calls: int,
        makes_edges: bool,
        current: CurrentSplit,
        start: str,
        decay: float,
        deviation: str = "full",
        edge_arguments: EdgeArguments | None = None,
    ) -> None:
        super().__init__()
        check_start(start, decay, deviation)
        self.conv, self.names, self.calls, self.makes_edges, self.current = conv, names, calls, makes_edges, current
        self.edge_arguments = edge_arguments
        self.arguments = argument_names(conv.forward)
        self.softmax = SoftmaxSwitch(type(conv))
        common = dict(conv.named_parameters())
        like = common[names[0]]
        count = current.num_relations
        self.together = Together(count, decay if start == "shared" else 0.0).to(like.device, like.dtype)
        self.deviations = torch.nn.ParameterList(
            torch.nn.Parameter(
                common[name].new_zeros(deviation_size(tuple(common[name].shape), count, deviation, dim=0)),
                common[name].requires_grad,
            )
            for name in names
        )
        self.statistics = self._statistics_of_copies()
        for number, name in enumerate(self.statistics):
            own = conv.get_buffer(name).detach()
            self.register_buffer(f"statistics_{number}", own.expand(count, *own.shape).clone())
        self._register_load_state_dict_pre_hook(self._before_load)  # type: ignore[no-untyped-call]
        if start == "independent":
            self._draw()

    def _statistics_of_copies(self) -> list[str]:
        """Names of the buffers that each copy has for itself: running statistics of norms."""
        norms = {
            name for name, module in self.conv.named_modules() if getattr(module, "running_mean", None) is not None
        }
        return [name for name, _ in self.conv.named_buffers() if name.rpartition(".")[0] in norms]

    def _draw(self) -> None:
        drawn = [copy.deepcopy(self.conv) for _ in range(self.current.num_relations)]
        for conv in drawn:
            conv.reset_parameters()
        common = dict(self.conv.named_parameters())
        with torch.no_grad():
            for name, deviation in zip(self.names, self.deviations, strict=True):
                each = torch.stack([dict(conv.named_parameters())[name] for conv in drawn])
                for target, value in zip((common[name], deviation), self.together.apart(each), strict=True):
                    target.copy_(value)

    def _before_load(self, state: dict[str, Any], prefix: str, *_: Any) -> None:
        keys = [f"{prefix}deviations.{number}" for number in range(len(self.deviations))]
        self.together.adopt(state, f"{prefix}together.", keys)
        for number, name in enumerate(self.statistics):  # a state without them: the same for all copies
            common = state.get(f"{prefix}conv.{name}")
            if common is not None:
                state.setdefault(f"{prefix}statistics_{number}", common.expand(self._own(number).shape).clone())

    def _own(self, number: int) -> Tensor:
        """A statistic of all copies, (R, ...)."""
        return self.get_buffer(f"statistics_{number}")

    def reset_parameters(self) -> None:
        """Draws new parameters; deviations become zero."""
        self.conv.reset_parameters()
        for deviation in self.deviations:
            torch.nn.init.zeros_(deviation)
        for number, name in enumerate(self.statistics):
            self._own(number).copy_(self.conv.get_buffer(name))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The layer with its own arguments; ``edge_type`` gives the relations of edges other than the model's."""
        is_traced = torch.compiler.is_dynamo_compiling()
        if is_traced and (_UNTRACED or (self.makes_edges and torch.is_grad_enabled())):
            return self._eagerly(*args, **kwargs)
        return self._call(*args, **kwargs)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _eagerly(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def _call(self, *args: Any, edge_type: Tensor | None = None, **kwargs: Any) -> Any:
        if is_traced():
            name = type(self.conv).__name__
            raise ValueError(f"a converted {name} must be exported by `torch.export` with `edge_type`, got torch.jit")
        named = {**named_arguments(self.arguments, args), **kwargs}
        if "edge_type" in self.arguments and edge_type is not None:  # an argument of the layer itself
            kwargs["edge_type"], edge_type = edge_type, None
        entry = self._entry(named, edge_type)
        if is_sparse_adj(entry[0].edge_index):
            args, kwargs, entry = self._dense(named, entry[0])
        common = dict(self.conv.named_parameters())
        for name in self.names:
            if name not in common:
                raise ValueError(
                    f"a converted {type(self.conv).__name__} must keep its parameters, got no `{name}`: parametrise "
                    "(weight_norm, spectral_norm) before `to_mrs`"
                )
        stacks = {
            name: self.together(common[name], deviation, dim=0)
            for name, deviation in zip(self.names, self.deviations, strict=True)
        }
        call = Call(self.conv, self.softmax, entry[0].edge_index if len(entry) == 1 else None, args, kwargs)
        return self._output(call, stacks, entry)

    def _output(self, call: Call, stacks: Mapping[str, Tensor], entry: list[SplitEdgeIndex]) -> Any:
        """The output with parameters (R, ...) by name, on the edges of ``entry``."""
        copies = [{name: stack[r] for name, stack in stacks.items()} for r in range(self.current.num_relations)]
        # of a layer that was pickled by an earlier version there are none
        arguments = getattr(self, "edge_arguments", None)
        steps = None
        named = {**named_arguments(self.arguments, call.args), **call.kwargs}
        if arguments is not None and may_use_parts(self.conv, named, entry, arguments):
            with suppress(Exception):  # all edges then, whose error, if any, is the layer's own
                steps = steps_in_parts(call, copies, self.calls, entry, arguments)
        return with_steps(call, self._steps(call, copies, entry) if steps is None else steps)

    def _steps(self, call: Call, copies: list[dict[str, Tensor]], entry: list[SplitEdgeIndex]) -> list[Sent | Tensor]:
        """All steps, from copies that get all edges."""
        # in evaluation norms leave their statistics as they are
        moves = any(self.conv.get_submodule(name.rpartition(".")[0]).training for name in self.statistics)
        statistics = _Statistics({name: self._own(number) for number, name in enumerate(self.statistics)}, moves)

        def of_next_step() -> list[dict[str, Tensor]]:
            own = statistics.of_next_step()
            return [{**each, **{name: value[r] for name, value in own.items()}} for r, each in enumerate(copies)]

        steps = whole_steps(call, of_next_step, self.calls, entry)
        statistics.write()
        return steps

    def _entry(self, named: Mapping[str, Any], edge_type: Tensor | None) -> list[SplitEdgeIndex]:
        edges = edges_of_call(named)
        if not edges:
            for name in ("edge_index", "adj_t"):
                if named.get(name) is not None:
                    check_edges(named[name])
                    edges = [named[name]]
        if not edges:
            raise ValueError(f"a converted {type(self.conv).__name__} must get edges (2, E), got none")
        if edge_type is not None:
            return [SplitEdgeIndex(edges[0], edge_type)]
        return [self.current.lookup(each) for each in edges]

    def _dense(
        self, named: Mapping[str, Any], entry: SplitEdgeIndex
    ) -> tuple[tuple[Any, ...], dict[str, Any], list[SplitEdgeIndex]]:
        """The arguments with edges in place of a sparse tensor: its entries are the messages."""
        edges, weight = entry.edges()
        kwargs = {name: edges if value is entry.edge_index else value for name, value in named.items()}
        takes_weight = "edge_weight" in self.arguments and kwargs.get("edge_weight") is None
        # PyG's FAConv takes the weights of its own norm, or of the call
        takes_weight = takes_weight and not (isinstance(self.conv, FAConv) and self.conv.normalize)
        name = type(self.conv).__name__
        if weight is not None and not takes_weight:
            raise ValueError(f"a sparse tensor must hold ones for a converted {name}, got others")
        if _adds_loops_of_norm(self.conv):
            weight = weight_with_loops(edges, weight, 1.0, next(self.conv.parameters()).dtype)
            if weight is not None and not takes_weight:
                raise ValueError(
                    f"a sparse tensor must have no self-loops for a converted {name}, which adds its own to them, got "
                    "some; pass `edge_index`"
                )
        if weight is not None:
            kwargs["edge_weight"] = weight
        return (), kwargs, [SplitEdgeIndex(edges, entry.edge_type)]


def _adds_loops_of_norm(conv: MessagePassing) -> bool:
    """Whether a layer of PyG adds self-loops in ``gcn_norm``, which adds them to those of a sparse tensor."""
    is_on = getattr(conv, "add_self_loops", False) and getattr(conv, "normalize", True)
    return bool(is_on) and "gcn_norm" in type(conv).forward.__code__.co_names


class _Statistics:
    """The running statistics of all copies during a call, (R, ...) by name.

    Each step runs the layer from its start, with the statistics before the call: the same update in two steps is one,
    others add up.
    """

    def __init__(self, before: dict[str, Tensor], moves: bool) -> None:
        self.before, self.moves = before, moves
        self.steps: list[dict[str, Tensor]] = []

    def of_next_step(self) -> dict[str, Tensor]:
        """Those that the norms of the next step read and update."""
        self.steps.append({name: each.clone() for name, each in self.before.items()} if self.moves else self.before)
        return self.steps[-1]

    def write(self) -> None:
        """Updates them by all steps."""
        for name, before in self.before.items() if self.moves else ():
            first, *others = [step[name] for step in self.steps]
            after, last = first, first
            for each in others:
                after, last = torch.where(each == last, after, after + (each - before)), each
            before.copy_(after)


class Probed(NamedTuple):
    """What a `GenericLayer` takes beside the layer."""

    names: list[str]
    calls: int
    makes_edges: bool
    edge_arguments: EdgeArguments | None


def probe(conv: MessagePassing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Probed:
    """Finds what messages depend on, parameters and other edges, how often they are passed, and along which edges.

    Parameters are found by autograd; raises if the layer has none.

    Args:
        conv: a copy of the layer, which is changed.
        args: arguments of a call.
        kwargs: further arguments.
    """
    name = type(conv).__name__
    if any(is_lazy(parameter) for parameter in conv.parameters()):
        raise NotConvertible("it has lazy parameters: give `example`, or call the model once before")
    if conv._decomposed_layers != 1:
        raise NotConvertible("it is decomposed (`decomposed_layers`)")
    untouched = copy.deepcopy(conv)  # a call may leave caches
    conv.eval()
    parameters = {key: value for key, value in conv.named_parameters() if value.is_floating_point()}
    for parameter in parameters.values():
        parameter.requires_grad_(True)
    call = Call(conv, None, None, args, kwargs)
    tap = Tap(call, [], stops=False)
    with torch.enable_grad():
        run(call, tap, {})
        if not tap.made:
            raise NotConvertible("it passes no messages through `propagate` and `message`")
        found: set[str] = set()
        for message in (step.message for step, _ in tap.made if isinstance(step, Sent)):
            if message.requires_grad:
                wanted = list(parameters.values())
                grads = torch.autograd.grad(message.sum(), wanted, retain_graph=True, allow_unused=True)
                found |= {key for key, grad in zip(parameters, grads, strict=True) if grad is not None}
    named = {**named_arguments(argument_names(conv.forward), args), **kwargs}
    edges = edges_of_call(named)
    entries = [SplitEdgeIndex(each, torch.zeros(each.size(1), dtype=torch.long, device=each.device)) for each in edges]
    for seen in tap.seen:
        if not entries or found_types(seen, entries, 1) is None:
            raise NotConvertible(f"{name} passes messages along edges that it makes itself")
    makes_edges = not all(any(seen is each for each in edges) for seen in tap.seen)
    names, passes = [key for key in parameters if key in found], len(tap.made)
    del tap, message  # the graph of all messages
    arguments = probe_parts(untouched, named, names, passes) if names else None
    return Probed(names, passes, makes_edges, arguments)
