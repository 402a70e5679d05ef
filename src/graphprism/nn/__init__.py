"""Layers and networks that pass messages with one weight per relation."""

from graphprism.nn.conv import (
    DirConv,
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
    "DirConv",
    "MRSConv",
    "MRSGATConv",
    "MRSGCNConv",
    "MRSGINConv",
    "MRSGatedGCNConv",
    "MRSSAGEConv",
    "RelationalWeight",
]
