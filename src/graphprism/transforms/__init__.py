"""PyG transforms that prepare a graph once, before training."""

from graphprism.transforms.laplacian_pe import LaplacianPE
from graphprism.transforms.laplacian_spectrum import LaplacianSpectrum
from graphprism.transforms.random_walk_pe import RandomWalkPE
from graphprism.transforms.relational_norm import RelationalNorm
from graphprism.transforms.split_edges import SampledGraphWarning, SplitEdges

__all__ = ["LaplacianPE", "LaplacianSpectrum", "RandomWalkPE", "RelationalNorm", "SampledGraphWarning", "SplitEdges"]
