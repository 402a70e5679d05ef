"""Networks: encoder, stack of convolutions, readout, head."""

from graphprism.nn.models.convolutions import CONVOLUTIONS, Convolution
from graphprism.nn.models.gnn import GNN

__all__ = ["CONVOLUTIONS", "GNN", "Convolution"]
