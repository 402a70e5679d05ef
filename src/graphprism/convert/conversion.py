"""`to_mrs`: from a model with PyG convolutions to one with a weight per relation."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch_geometric.nn import DirGNNConv, EdgeConv, GatedGraphConv, GINConv, GINEConv, MessagePassing

from graphprism._checks import check_choice, check_function, check_positive, check_type
from graphprism.convert.current_split import CurrentSplit
from graphprism.convert.generic_layer import GenericLayer, NotConvertible, Probed, probe
from graphprism.convert.mrs_model import MRSModel, argument_names
from graphprism.convert.own_layers import OwnLayer, own_layer
from graphprism.convert.probe_sums import probe_sums
from graphprism.convert.summed_layer import SummedLayer
from graphprism.nn.conv.relational_conv import RelationalConv
from graphprism.nn.conv.relational_weight import DECAY, check_start
from graphprism.nn.models.fit_width import fit_width
from graphprism.splitting import GraphLike, Split, resolve_split

_GIVE_EXAMPLE = "give `example`, the arguments of a call of the model, such as example=(x, edge_index)"


def to_mrs(
    model: torch.nn.Module | Callable[[int], torch.nn.Module],
    split: str | Split | Tensor | Callable[[GraphLike], Tensor] = "degree",
    *,
    num_relations: int | None = None,
    start: str = "shared",
    decay: float = DECAY,
    deviation: str = "full",
    example: tuple[Any, ...] | Mapping[str, Any] | None = None,
    strict: bool = True,
    budget: str | int | None = None,
    width: int | None = None,
) -> MRSModel:
    """Converts each convolution of PyG in a model to one weight per relation; initially the same function.

    ``GCNConv``, ``SAGEConv``, ``GraphConv`` (mean and sum), ``GATConv``, ``GINConv`` and ``GINEConv`` without
    ``edge_dim`` become layers of this package, with their weights and options. Any other `MessagePassing` gets a copy
    per relation of the parameters that its messages depend on, see `GenericLayer`, or else of those that act on sums of
    messages, see `SummedLayer`. CONVERSION.md lists the convolutions of PyG.

    Args:
        model: any module, which is copied; with ``budget`` a function from a width to a module.
        split: the split of the edges, as for `SplitEdges`.
        num_relations: R, if the split does not define it.
        start: ``"shared"`` starts as the given model, with equal weights in all relations; ``"independent"``, as in the
            paper, draws new weights for each relation, which is another function.
        decay: how strongly a shared start ties the relations to their common weights, 0 for not at all.
        deviation: difference of a relation from the common weights: ``"full"`` is a matrix, ``"diagonal"`` one factor
            per output channel, with few parameters. See `RelationalParameter`.
        example: arguments of a call of the model, as a tuple or by name. Needed if a convolution has lazy parameters,
            or if the input of a `GenericLayer` cannot be guessed.
        strict: whether a convolution that cannot be converted raises; else it stays unchanged.
        budget: ``"equal"``: the converted model has at most as many parameters as ``model(width)``; a number: at most
            that many. Its width is the largest that fits; parameters must grow with the width.
        width: the width of the reference for ``budget="equal"``.

    Example:
        >>> from torch_geometric.nn import GCN
        >>> model = GCN(16, 32, num_layers=2, out_channels=7).eval()
        >>> x, edge_index = torch.randn(3, 16), torch.tensor([[0, 1, 2, 0], [1, 0, 0, 2]])
        >>> torch.allclose(to_mrs(model)(x, edge_index), model(x, edge_index), atol=1e-6)
        True
        >>> equal = to_mrs(lambda width: GCN(16, width, num_layers=2, out_channels=7), budget="equal", width=32)
        >>> equal.model.hidden_channels
        10
    """
    check_start(start, decay, deviation)
    resolved = resolve_split(split)
    count = resolved.num_relations if num_relations is None else num_relations
    if count is None:
        raise ValueError(
            f"`num_relations` must be given if the split does not define it, got None with {resolved!r}; an attribute "
            'may say how many values it has, as "degree * attr(edge_attr, 4)" does'
        )
    check_positive("num_relations", count)
    if resolved.num_relations is not None and count < resolved.num_relations:
        raise ValueError(f"`num_relations` must be at least {resolved.num_relations} for {resolved!r}, got {count}")
    options = {"start": start, "decay": decay, "deviation": deviation, "example": example, "strict": strict}
    if budget is None:
        if width is not None:
            raise ValueError(f'`width` must be None without budget="equal", got {width!r}')
        check_type("model", model, torch.nn.Module, "a torch.nn.Module, or a function of a width with `budget`")
        if start == "independent":
            return _converted(model, resolved, count, **options)  # type: ignore[arg-type]
        with torch.random.fork_rng(devices=[]):  # the same weights: what is drawn after it is that of the plain model
            return _converted(model, resolved, count, **options)  # type: ignore[arg-type]

    def make(size: int) -> MRSModel:
        return _converted(model(size), resolved, count, **options)  # type: ignore[arg-type]

    def count_parameters(size: int) -> int:
        with torch.random.fork_rng(devices=[]):  # the search leaves the random state unchanged
            return number_of_parameters(make(size))

    if isinstance(model, torch.nn.Module):
        came = f"a {type(model).__name__}, whose width is fixed"
        raise TypeError(f"`model` must be a function of a width with `budget`, got {came}")
    check_function("model", model, "a function of a width with `budget`")
    if isinstance(budget, str):
        check_choice("budget", budget, ("equal",))
        if width is None:
            raise ValueError('`width` must be given with budget="equal", got None')
        check_positive("width", width)
        with torch.random.fork_rng(devices=[]):
            budget = number_of_parameters(model(width))
    elif width is not None:
        raise ValueError(f'`width` must be None unless budget="equal", as it is found, got {width!r}')
    check_positive("budget", budget)
    return make(fit_width(int(budget), count_parameters))


def number_of_parameters(model: torch.nn.Module) -> int:
    """Number of trainable parameters of a model."""
    return sum(parameter.numel() for parameter in model.parameters())


def _converted(
    model: torch.nn.Module,
    split: Split,
    count: int,
    start: str,
    decay: float,
    deviation: str,
    example: Any,
    strict: bool,
) -> MRSModel:
    model = copy.deepcopy(model)
    current = CurrentSplit(split, count)
    calls = {} if example is None else _recorded_calls(model, example)
    shared = _shared_parameters(model)
    done: dict[torch.nn.Module, torch.nn.Module] = {}
    refused: dict[str, str] = {}

    def convert(name: str, conv: MessagePassing) -> torch.nn.Module:
        if conv not in done:
            try:
                done[conv] = _convert(conv, current, start, decay, deviation, calls.get(name), shared)
            except NotConvertible as error:
                refused[name or "model"] = f"{type(conv).__name__}: {error}"
                done[conv] = conv
        return done[conv]

    if isinstance(model, MessagePassing):
        model = convert("", model)
    else:
        for prefix, parent in list(model.named_modules()):
            if _is_inside_conv(prefix, model):
                continue
            for key, child in list(parent._modules.items()):
                if isinstance(child, MessagePassing):
                    parent._modules[key] = convert(f"{prefix}.{key}" if prefix else key, child)
        model = _with_directions(model, current)
    some = any(new is not old for old, new in done.items())
    if refused and (strict or not some):
        reasons = "; ".join(_reasons(refused))
        way = "; `strict=False` leaves such layers plain" if some else ""
        raise ValueError(f"every convolution must have a multi-relational form, got {reasons}{way}")
    if not done:
        name = type(model).__name__
        if any(isinstance(each, MRSModel) for each in model.modules()):
            raise ValueError(f"`model` must not be converted yet, got a {name} with convolutions of `to_mrs`")
        raise ValueError(f"`model` must have a convolution of PyG, got a {name} without")
    return MRSModel(model, current)


def _reasons(refused: dict[str, str]) -> list[str]:
    """Each reason once, with the first convolution and the number of others that it is about."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in refused.items():
        by_reason.setdefault(reason, []).append(name)
    return [
        f"`{names[0]}` is a {reason}" + (f" (so for {len(names) - 1} more, to `{names[-1]}`)" if len(names) > 1 else "")
        for reason, names in by_reason.items()
    ]


def _is_inside_conv(prefix: str, model: torch.nn.Module) -> bool:
    parts = prefix.split(".")
    parents = [".".join(parts[: i + 1]) for i in range(len(parts))]
    return any(isinstance(model.get_submodule(each), MessagePassing | OwnLayer | GenericLayer) for each in parents)


def _convert(
    conv: MessagePassing,
    current: CurrentSplit,
    start: str,
    decay: float,
    deviation: str,
    call: tuple[tuple[Any, ...], dict[str, Any]] | None,
    shared: set[int],
) -> torch.nn.Module:
    if isinstance(conv, RelationalConv):
        raise NotConvertible("it has a weight for each relation already")
    if any(is_lazy(parameter) for parameter in conv.parameters()):
        raise NotConvertible("it has lazy parameters: give `example`, or call the model once before")
    if any(id(parameter) in shared for parameter in conv.parameters()):
        raise NotConvertible("it shares parameters with another module, and copies would not")
    own = own_layer(conv, current.num_relations, start, decay, deviation)
    if own is not None:
        return OwnLayer(own, conv, current).train(conv.training)
    if not any(parameter.is_floating_point() for parameter in conv.parameters()):  # no example would help
        raise NotConvertible("its messages depend on no parameters: it has none")
    probed = _with_values(conv)
    try:
        # values are needed even where the model is made under `torch.device("meta")`
        with nullcontext() if probed is conv else torch.device("cpu"):
            found, at = _probed(probed, call)
    except NotConvertible:
        raise
    except Exception as error:
        if call is not None:
            raise
        raise NotConvertible(
            f"its input cannot be guessed: {_GIVE_EXAMPLE} ({type(error).__name__}: {error})"
        ) from error
    names, passes, makes_edges, edge_arguments = found
    if at is None:
        made = GenericLayer(conv, names, passes, makes_edges, current, start, decay, deviation, edge_arguments)
    else:
        made = SummedLayer(conv, names, passes, at, current, start, decay, deviation)
    return made.train(conv.training)


def _probed(conv: MessagePassing, call: tuple[tuple[Any, ...], dict[str, Any]] | None) -> tuple[Probed, str | None]:
    """What `GenericLayer` takes, and for a `SummedLayer` where its sums are."""
    args, kwargs = _guessed_call(conv) if call is None else call
    found = probe(copy.deepcopy(conv), args, kwargs)
    if found.names:
        return found, None
    names, at = _found_sums(conv, args, kwargs, found.calls)
    return found._replace(names=names), at


def _with_values(conv: MessagePassing) -> MessagePassing:
    """The convolution; on the meta device a copy with values of its own, since a probe needs some."""
    if not any(parameter.is_meta for parameter in conv.parameters()):
        return conv
    made = copy.deepcopy(conv).to_empty(device="cpu")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        for each in made.parameters():
            each.normal_()
        for each in made.buffers():
            each.fill_(1)
        made.reset_parameters()  # those of which it knows
    return made


def _found_sums(
    conv: MessagePassing, args: tuple[Any, ...], kwargs: dict[str, Any], passes: int
) -> tuple[list[str], str]:
    try:
        return probe_sums(copy.deepcopy(conv), *copy.deepcopy((args, kwargs)), passes)
    except NotConvertible:
        raise
    except Exception as error:
        why = f"the sum of each relation cannot be computed ({type(error).__name__}: {error})"
        raise NotConvertible(f"its messages depend on no parameters, and {why}") from error


def _recorded_calls(
    model: torch.nn.Module, example: tuple[Any, ...] | Mapping[str, Any]
) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """The arguments of each convolution in a call of the model; initialises lazy parameters of ``model``."""
    scratch = copy.deepcopy(model)
    calls: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}
    for name, module in scratch.named_modules():
        if isinstance(module, MessagePassing):

            def record(_: Any, args: Any, kwargs: Any, name: str = name) -> None:
                calls.setdefault(name, (args, kwargs))

            module.register_forward_pre_hook(record, with_kwargs=True)
    scratch.eval()
    with torch.no_grad():
        scratch(**example) if isinstance(example, Mapping) else scratch(*example)
    if any(is_lazy(parameter) for parameter in model.parameters()):
        model.load_state_dict(scratch.state_dict())
    return calls


def _guessed_call(conv: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments for a call of a convolution, with sizes from its attributes."""
    like = next(conv.parameters(), torch.empty(0))
    edges = torch.tensor([[0, 1, 2, 3, 1, 2], [1, 2, 3, 0, 0, 1]], device=like.device)
    channels = getattr(conv, "in_channels", None) or getattr(conv, "channels", None)
    if isinstance(conv, GatedGraphConv):  # takes rows of at most its own size
        channels = conv.out_channels
    kwargs = {}
    if isinstance(conv, GINConv | GINEConv | EdgeConv):  # its sizes are those of its parts
        sizes = (getattr(each, "in_features", None) or getattr(each, "in_channels", None) for each in conv.nn.modules())
        channels = next((size for size in sizes if isinstance(size, int)), None)
    if isinstance(conv, EdgeConv) and channels is not None:  # its network reads both ends of an edge
        channels //= 2
    if isinstance(conv, GINEConv):
        size = channels if conv.lin is None else conv.lin.in_channels
        kwargs["edge_attr"] = like.new_ones(edges.size(1), size or 1)
    if channels is None:
        raise NotConvertible(f"its input cannot be guessed: {_GIVE_EXAMPLE}")
    x: Any = tuple(like.new_ones(4, size) for size in channels) if isinstance(channels, tuple) else None
    x = like.new_ones(4, channels) if isinstance(channels, int) else x
    if isinstance(getattr(conv, "edge_dim", None), int):
        kwargs["edge_attr"] = like.new_ones(edges.size(1), conv.edge_dim)
    initial = (x,) if "x_0" in argument_names(conv.forward) else ()  # a residual connection to the first layer
    return (x, *initial, edges), kwargs


def _shared_parameters(model: torch.nn.Module) -> set[int]:
    """Parameters that are in two modules."""
    seen: set[int] = set()
    twice: set[int] = set()
    for module in model.modules():
        own = {id(parameter) for parameter in module._parameters.values() if parameter is not None}
        twice |= own & seen
        seen |= own
    return twice


def _with_directions(model: torch.nn.Module, current: CurrentSplit) -> torch.nn.Module:
    """Replaces PyG's `DirGNNConv`, which reverses edges itself, by one that also passes the relations."""
    if isinstance(model, DirGNNConv):
        return _Directions(model, current)
    for parent in list(model.modules()):
        for key, child in list(parent._modules.items()):
            if isinstance(child, DirGNNConv):
                parent._modules[key] = _Directions(child, current)
    return model


class _Directions(torch.nn.Module):
    """PyG's `DirGNNConv` of converted convolutions."""

    def __init__(self, conv: DirGNNConv, current: CurrentSplit) -> None:
        super().__init__()
        self.conv, self.current, self.training = conv, current, conv.training

    def reset_parameters(self) -> None:
        """Draws new weights."""
        self.conv.reset_parameters()

    def forward(self, x: Tensor, edge_index: Tensor, *, edge_type: Tensor | None = None) -> Tensor:
        """Both directions, each edge with its relation."""
        types = self.current.lookup(edge_index).edge_type if edge_type is None else edge_type
        ahead = self.conv.conv_in(x, edge_index, edge_type=types)
        back = self.conv.conv_out(x, edge_index.flip(0), edge_type=types)
        out: Tensor = self.conv.alpha * back + (1 - self.conv.alpha) * ahead
        return out + self.conv.lin(x) if self.conv.root_weight else out
