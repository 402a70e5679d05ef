"""The theory as functions: does a split distinguish nodes, and is a model collapsing?

``graphprism.analysis.collapse`` is the function; the package of that name is there for
``from graphprism.analysis.collapse import ...``.
"""

from graphprism.analysis.certificate import (
    AGGREGATIONS,
    DIRECTION_TOLERANCE,
    RANK_TOLERANCE,
    Certificate,
    LayerCertificate,
    RelationCertificate,
    SplitComparison,
    aggregated_in_degrees,
    certify,
    compare_splits,
    direction_groups,
    structural_rank,
    weighted_in_degrees,
)
from graphprism.analysis.certificate.inspect_graph import inspect_graph
from graphprism.analysis.collapse import (
    CollapseMonitor,
    CollapseReport,
    LayerCollapse,
    Norms,
    collapse,
    dirichlet_energy,
    effective_rank,
    lightning_callback,
    norms,
    numerical_rank,
    rank_one_distance,
)
from graphprism.analysis.explain_relations import RelationExplanation, explain
from graphprism.io import FileGraph, GraphFileError, read_graph

__all__ = [
    "AGGREGATIONS",
    "DIRECTION_TOLERANCE",
    "RANK_TOLERANCE",
    "Certificate",
    "CollapseMonitor",
    "CollapseReport",
    "FileGraph",
    "GraphFileError",
    "LayerCertificate",
    "LayerCollapse",
    "Norms",
    "RelationCertificate",
    "RelationExplanation",
    "SplitComparison",
    "aggregated_in_degrees",
    "certify",
    "collapse",
    "compare_splits",
    "direction_groups",
    "dirichlet_energy",
    "effective_rank",
    "explain",
    "inspect_graph",
    "lightning_callback",
    "norms",
    "numerical_rank",
    "rank_one_distance",
    "read_graph",
    "structural_rank",
    "weighted_in_degrees",
]
