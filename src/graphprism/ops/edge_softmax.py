"""Attention coefficients: a softmax over the incoming edges of every node, all relations together."""

from __future__ import annotations

from torch import Tensor

from graphprism._checks import check_shape
from graphprism.ops.entry_sum import entry_sum
from graphprism.ops.relational_adj import RelationalAdj
from graphprism.ops.table_adj import TableAdj
from graphprism.ops.table_products import softmax


def edge_softmax(logit: Tensor, adj: RelationalAdj | TableAdj) -> Tensor:
    r"""Normalises over all entries that end in the same node, each counted with its weight :math:`w`.

    .. math:: \alpha_k = \frac{w_k \exp(\ell_k)}{\sum_{m \to i} w_m \exp(\ell_m)}

    An edge of weight two counts as two edges; a score of zero takes an entry out.

    Shapes: ``logit`` (K, H) -> (K, H)
    """
    if isinstance(adj, TableAdj):
        return softmax(logit, adj)
    check_shape("logit", logit, [adj.src.numel(), "H"])
    dst = adj.dst[:, None].expand_as(logit)
    # the largest logit cancels in exact arithmetic, so it needs no gradient
    largest = logit.new_zeros(adj.size[1], logit.size(1)).scatter_reduce(
        0, dst, logit.detach(), reduce="amax", include_self=False
    )
    mass = (logit - largest[adj.dst]).exp()
    if adj.weight is not None:
        mass = adj.weight[:, None].to(logit.dtype) * mass
    return mass / (entry_sum(mass, adj)[adj.dst] + 1e-16)
