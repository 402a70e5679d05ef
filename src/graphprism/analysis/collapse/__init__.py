"""Is a model collapsing, and where: metrics of node states, a table by layer, and a monitor for training."""

from graphprism.analysis.collapse.collapse import collapse
from graphprism.analysis.collapse.energy import Norms, dirichlet_energy, norms
from graphprism.analysis.collapse.monitor import CollapseMonitor, lightning_callback
from graphprism.analysis.collapse.rank import effective_rank, numerical_rank, rank_one_distance
from graphprism.analysis.collapse.report import CollapseReport, LayerCollapse

__all__ = [
    "CollapseMonitor",
    "CollapseReport",
    "LayerCollapse",
    "Norms",
    "collapse",
    "dirichlet_energy",
    "effective_rank",
    "lightning_callback",
    "norms",
    "numerical_rank",
    "rank_one_distance",
]
