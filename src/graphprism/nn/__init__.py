"""Layers and networks that pass messages with one weight per relation."""

from graphprism.nn.conv import (
    DegreeGATConv,
    DirConv,
    LearnedSplit,
    LMGCConv,
    MRSConv,
    MRSGATConv,
    MRSGatedGCNConv,
    MRSGCNConv,
    MRSGCNEConv,
    MRSGINConv,
    MRSGINEConv,
    MRSSAGEConv,
    RelationalWeight,
)
from graphprism.nn.models import CONVOLUTIONS, GNN, Convolution

__all__ = [
    "CONVOLUTIONS",
    "GNN",
    "Convolution",
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
