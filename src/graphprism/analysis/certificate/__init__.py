"""The certificate of a split: results that are proven about a layer on it."""

from graphprism.analysis.certificate.certificate import Certificate, LayerCertificate, RelationCertificate
from graphprism.analysis.certificate.certify import certify
from graphprism.analysis.certificate.compare_splits import SplitComparison, compare_splits
from graphprism.analysis.certificate.directions import (
    DIRECTION_TOLERANCE,
    RANK_TOLERANCE,
    direction_groups,
    structural_rank,
)
from graphprism.analysis.certificate.in_degrees import AGGREGATIONS, aggregated_in_degrees, weighted_in_degrees

__all__ = [
    "AGGREGATIONS",
    "DIRECTION_TOLERANCE",
    "RANK_TOLERANCE",
    "Certificate",
    "LayerCertificate",
    "RelationCertificate",
    "SplitComparison",
    "aggregated_in_degrees",
    "certify",
    "compare_splits",
    "direction_groups",
    "structural_rank",
    "weighted_in_degrees",
]
