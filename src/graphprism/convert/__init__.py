"""Conversion of any model with PyG convolutions to one weight per relation."""

from graphprism.convert.conversion import to_mrs
from graphprism.convert.mrs_model import MRSModel

__all__ = ["MRSModel", "to_mrs"]
