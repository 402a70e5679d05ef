"""Networks: encoder, stack of convolutions, readout, head."""

from graphprism.nn.models.convolutions import CONVOLUTIONS, make_conv
from graphprism.nn.models.mrs_gnn import MRSGNN

__all__ = ["CONVOLUTIONS", "MRSGNN", "make_conv"]
