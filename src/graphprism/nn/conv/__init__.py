"""Layers: weights and one formula each."""

from graphprism.nn.conv.degree_gat_conv import DegreeGATConv
from graphprism.nn.conv.dir_conv import DirConv
from graphprism.nn.conv.learned_split import LearnedSplit
from graphprism.nn.conv.lmgc_conv import LMGCConv
from graphprism.nn.conv.mrs_conv import MRSConv
from graphprism.nn.conv.mrs_gat_conv import MRSGATConv
from graphprism.nn.conv.mrs_gated_gcn_conv import MRSGatedGCNConv
from graphprism.nn.conv.mrs_gcn_conv import MRSGCNConv
from graphprism.nn.conv.mrs_gcne_conv import MRSGCNEConv
from graphprism.nn.conv.mrs_gin_conv import MRSGINConv
from graphprism.nn.conv.mrs_gine_conv import MRSGINEConv
from graphprism.nn.conv.mrs_sage_conv import MRSSAGEConv
from graphprism.nn.conv.relational_weight import RelationalWeight

__all__ = [
    "DegreeGATConv",
    "DirConv",
    "LMGCConv",
    "LearnedSplit",
    "MRSConv",
    "MRSGATConv",
    "MRSGCNConv",
    "MRSGCNEConv",
    "MRSGINConv",
    "MRSGINEConv",
    "MRSGatedGCNConv",
    "MRSSAGEConv",
    "RelationalWeight",
]
