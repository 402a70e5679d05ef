"""Mini-batches of large graphs: samplers and loaders that keep relations, and layer-wise inference."""

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
