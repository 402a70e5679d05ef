"""Networks: encoder, stack of convolutions, readout, head."""

from collections import ChainMap
from collections.abc import Mapping
from typing import Any

from graphprism.nn.models.baselines import BASELINES, Baseline
from graphprism.nn.models.convolutions import CONVOLUTIONS, Convolution, register_convolution
from graphprism.nn.models.gnn import GNN
from graphprism.nn.models.remedies import REMEDIES, RemedyGNN

_parts: list[Any] = [BASELINES, CONVOLUTIONS]
# All trainable models, by name; a view, as convolutions may be registered.
MODELS: Mapping[str, Convolution | Baseline] = ChainMap(*_parts)

__all__ = [
    "BASELINES",
    "CONVOLUTIONS",
    "GNN",
    "MODELS",
    "REMEDIES",
    "Baseline",
    "Convolution",
    "RemedyGNN",
    "register_convolution",
]
