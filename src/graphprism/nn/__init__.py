"""Layers and networks that pass messages with one weight per relation."""

from graphprism.nn.conv import (
    DegreeGATConv,
    DirConv,
    MRSConv,
    MRSGATConv,
    MRSGatedGCNConv,
    MRSGCNConv,
    MRSGINConv,
    MRSSAGEConv,
    RelationalWeight,
)
from graphprism.nn.models import BASELINES, CONVOLUTIONS, GNN, MODELS, REMEDIES, Baseline, Convolution, RemedyGNN

__all__ = [
    "BASELINES",
    "CONVOLUTIONS",
    "GNN",
    "MODELS",
    "REMEDIES",
    "Baseline",
    "Convolution",
    "DegreeGATConv",
    "DirConv",
    "MRSConv",
    "MRSGATConv",
    "MRSGCNConv",
    "MRSGINConv",
    "MRSGatedGCNConv",
    "MRSSAGEConv",
    "RelationalWeight",
    "RemedyGNN",
]
