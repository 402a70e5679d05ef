"""Options of `GNN`: their checks, and the objects that names stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from inspect import signature
from typing import TypeAlias

import torch
from torch_geometric.nn import norm as pyg_norm
from torch_geometric.nn.resolver import normalization_resolver

from graphprism._checks import check_choice, check_flag, check_positive, check_share, check_whole
from graphprism._text import suggest
from graphprism.nn.conv.operands import check_in_channels, resolved
from graphprism.nn.models.blocks import ACTIVATIONS, HEADS
from graphprism.nn.models.convolutions import CONVOLUTIONS, Convolution

Factory: TypeAlias = Callable[[int], torch.nn.Module]

PE_ENCODERS = (None, "deepset", "walk")
SPLIT_LAYERS = ("all", "early", "late")


def splits_of(split_layers: str, num_layers: int) -> list[bool]:
    """For each layer, whether it is relational.

    >>> splits_of("early", 3), splits_of("late", 3)
    ([True, True, False], [False, False, True])
    """
    half = (num_layers + 1) // 2
    return [split_layers == "all" or (number < half) == (split_layers == "early") for number in range(num_layers)]


def find_convolution(conv: str | Convolution | Factory) -> Convolution | Factory:
    """The entry of `CONVOLUTIONS` by name; an entry or a factory is returned unchanged."""
    if isinstance(conv, Convolution) or (callable(conv) and not isinstance(conv, str)):
        return conv
    if not isinstance(conv, str) or conv not in CONVOLUTIONS:
        close = suggest(conv, CONVOLUTIONS) if isinstance(conv, str) else ""
        must = f"a function of the width or one of {sorted(CONVOLUTIONS)}"
        raise ValueError(f"`conv` must be {must}, got {conv!r}{close}")
    return CONVOLUTIONS[conv]


def resolved_norm(norm: object, channels: int) -> torch.nn.Module:
    """The normalisation of PyG by name, without any the identity."""
    if norm is None:
        return torch.nn.Identity()
    must = "None or the name of a normalisation of PyG"
    try:
        return resolved("norm", norm, must, lambda: normalization_resolver(norm, channels))
    except ValueError as error:
        raise ValueError(f"{error}{suggest(norm, _norm_names()) if isinstance(norm, str) else ''}") from None


def takes_batch(norm: torch.nn.Module) -> bool:
    """Whether a normalisation can have statistics of every graph of a batch."""
    return "batch" in signature(norm.forward).parameters


def _norm_names() -> list[str]:
    """Class names and short names of PyG's normalisations that need only a width."""
    names = []
    for name in pyg_norm.__all__:
        with suppress(ValueError, TypeError, AttributeError):
            normalization_resolver(name, 8)
            names += [name, name.removesuffix("Norm").lower()]
    return names


def check_sizes(hidden: object, out: object, layers: object, in_channels: object, relations: object) -> None:
    """Checks widths and numbers of layers and relations."""
    check_positive("hidden_channels", hidden)
    check_positive("out_channels", out)
    check_positive("num_layers", layers)
    check_in_channels(in_channels)
    counts = relations if isinstance(relations, list | tuple) else [relations]
    for count in counts:
        check_positive("num_relations", count)
    if not counts:
        raise ValueError("`num_relations` must be at least one number, got none")


def check_layers(
    flags: Mapping[str, object],
    *,
    dropout: object,
    alpha: object,
    activation: object,
    split_layers: object,
    head: object,
    head_layers: object,
    head_activation: object,
) -> None:
    """Checks what layers and head are made of; ``flags`` are all options that are `True` or `False`, by name."""
    check_share("dropout", dropout, below_one=True)
    check_share("alpha", alpha)
    for name, flag in flags.items():
        check_flag(name, flag)
    check_choice("activation", activation, tuple(ACTIVATIONS))
    check_choice("head_activation", head_activation, tuple(ACTIVATIONS))
    check_choice("head", head, tuple(HEADS))
    check_choice("split_layers", split_layers, SPLIT_LAYERS)
    check_positive("head_layers", head_layers)
    if flags["normalize"] and (flags["ffn"] or activation != "relu"):
        came = f"normalize=True with ffn={flags['ffn']} and activation={activation!r}"
        raise ValueError(f'`normalize` must be False with a feed-forward block or without "relu", got {came}')


def check_types(name: str, types: object) -> None:
    """Raises unless ``types`` is `None`, a number of types, or one for each column."""
    numbers = types if isinstance(types, Sequence) and not isinstance(types, str) else [types]
    if types is not None and not (numbers and all(type(each) is int and each >= 1 for each in numbers)):
        raise ValueError(f"`{name}` must be None, a whole number of at least 1, or a sequence of them, got {types!r}")


def check_pe_channels(pe_channels: int, hidden_channels: int) -> None:
    """Raises unless positional features leave channels for others."""
    check_whole("pe_channels", pe_channels)
    if not 0 <= pe_channels < hidden_channels:
        raise ValueError(f"`pe_channels` must be in [0, {hidden_channels}), the width, got {pe_channels}")


def check_jk(jk: object) -> None:
    """Raises unless ``jk`` is a kind of jumping knowledge."""
    if jk not in (None, "cat", "max", "lstm"):
        raise ValueError(f'`jk` must be None, "cat", "max" or "lstm", got {jk!r}')


def check_encoders(
    *,
    encode: bool,
    num_node_types: object,
    num_edge_types: object,
    pe_channels: int,
    pe_encoder: object,
    walk_steps: int,
    edge_walks: bool,
) -> None:
    """Checks that encoders have the inputs that they need."""
    if pe_encoder not in PE_ENCODERS or (pe_encoder and not pe_channels):
        came = f"{pe_encoder!r} with {pe_channels} channels"
        must = 'None, or "deepset" or "walk" with `pe_channels` of at least 1'
        raise ValueError(f"`pe_encoder` must be {must}, got {came}")
    check_whole("walk_steps", walk_steps)
    if (walk_steps > 0) != (pe_encoder == "walk"):
        must = "at least 1" if pe_encoder == "walk" else '0 without pe_encoder="walk"'
        raise ValueError(f"`walk_steps` must be {must}, got {walk_steps}")
    if edge_walks and (pe_encoder != "walk" or not num_edge_types):
        came = f"{pe_encoder!r} and {num_edge_types}"
        raise ValueError(f'`edge_walks` must be False without pe_encoder="walk" and types of edges, got {came}')
    if not encode and (num_node_types or pe_channels):
        came = f"{num_node_types} and {pe_channels}"
        raise ValueError(f"`num_node_types` and `pe_channels` must be None and 0 without an encoder, got {came}")
