"""Graphs that are larger than a step: samplers and loaders that carry relations, and inference layer by layer."""

from graphprism.loader.cluster_loader import ClusterLoader, partition
from graphprism.loader.cugraph import merge_relations, put_relations, with_edge_type
from graphprism.loader.layerwise import in_parts, layerwise
from graphprism.loader.loaders import LinkNeighborLoader, NeighborLoader, SeedBatches
from graphprism.loader.neighbor_sampler import NeighborSampler

__all__ = [
    "ClusterLoader",
    "LinkNeighborLoader",
    "NeighborLoader",
    "NeighborSampler",
    "SeedBatches",
    "in_parts",
    "layerwise",
    "merge_relations",
    "partition",
    "put_relations",
    "with_edge_type",
]
