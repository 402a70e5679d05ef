"""Networks: encoder, stack of convolutions, readout, head."""

from collections.abc import Mapping

from graphprism.nn.models.baselines import BASELINES, Baseline
from graphprism.nn.models.convolutions import CONVOLUTIONS, Convolution
from graphprism.nn.models.gnn import GNN
from graphprism.nn.models.remedies import REMEDIES, RemedyGNN

# All trainable models, by name.
MODELS: Mapping[str, Convolution | Baseline] = {**CONVOLUTIONS, **BASELINES}

__all__ = ["BASELINES", "CONVOLUTIONS", "GNN", "MODELS", "REMEDIES", "Baseline", "Convolution", "RemedyGNN"]
