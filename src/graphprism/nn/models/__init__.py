"""Networks: encoder, stack of convolutions, readout, head."""

from graphprism.nn.models.convolutions import CONVOLUTIONS, make_conv
from graphprism.nn.models.dir_gnn import DirGNN
from graphprism.nn.models.mrs_gnn import MRSGNN
from graphprism.nn.models.node_convolutions import NODE_CONVOLUTIONS, make_node_conv

__all__ = ["CONVOLUTIONS", "MRSGNN", "NODE_CONVOLUTIONS", "DirGNN", "make_conv", "make_node_conv"]
