"""The certificate of a split: what is proven about the layer that follows it."""

from graphprism.analysis.certificate.aggregated_in_degrees import AGGREGATIONS, aggregated_in_degrees
from graphprism.analysis.certificate.certificate import Certificate
from graphprism.analysis.certificate.certify import certify
from graphprism.analysis.certificate.compare_splits import compare_splits
from graphprism.analysis.certificate.direction_groups import DIRECTION_TOLERANCE, direction_groups
from graphprism.analysis.certificate.ergodic_graphs import ergodic_graphs
from graphprism.analysis.certificate.find_cycle import find_cycle
from graphprism.analysis.certificate.independent_pairs import independent_pairs
from graphprism.analysis.certificate.independent_witness import independent_witness
from graphprism.analysis.certificate.relation_certificate import RelationCertificate
from graphprism.analysis.certificate.root_nodes import root_nodes
from graphprism.analysis.certificate.split_comparison import SplitComparison
from graphprism.analysis.certificate.structural_rank import RANK_TOLERANCE, structural_rank
from graphprism.analysis.certificate.weighted_in_degrees import weighted_in_degrees

__all__ = [
    "AGGREGATIONS",
    "DIRECTION_TOLERANCE",
    "RANK_TOLERANCE",
    "Certificate",
    "RelationCertificate",
    "SplitComparison",
    "aggregated_in_degrees",
    "certify",
    "compare_splits",
    "direction_groups",
    "ergodic_graphs",
    "find_cycle",
    "independent_pairs",
    "independent_witness",
    "root_nodes",
    "structural_rank",
    "weighted_in_degrees",
]
