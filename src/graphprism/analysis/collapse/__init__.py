"""Is a model collapsing, and where: metrics of node states, a table by layer, and a monitor for training."""

from graphprism.analysis.collapse.collapse import collapse
from graphprism.analysis.collapse.collapse_monitor import CollapseMonitor
from graphprism.analysis.collapse.collapse_report import CollapseReport
from graphprism.analysis.collapse.dirichlet_energy import dirichlet_energy
from graphprism.analysis.collapse.effective_rank import effective_rank
from graphprism.analysis.collapse.layer_collapse import LayerCollapse
from graphprism.analysis.collapse.lightning_callback import lightning_callback
from graphprism.analysis.collapse.norms import Norms, norms
from graphprism.analysis.collapse.numerical_rank import numerical_rank
from graphprism.analysis.collapse.rank_one_distance import rank_one_distance

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
