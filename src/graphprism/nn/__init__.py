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
    MRSGINConv,
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
    "MRSGINConv",
    "MRSGatedGCNConv",
    "MRSSAGEConv",
    "RelationalWeight",
]
