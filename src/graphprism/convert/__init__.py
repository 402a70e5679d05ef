"""Conversion: any model with convolutions of PyG, with one weight for each relation."""

from graphprism.convert.conversion import to_mrs
from graphprism.convert.mrs_model import MRSModel

__all__ = ["MRSModel", "to_mrs"]
