"""Both passes of `relational_linear` by the kernels of `triton.py`, which write no sums to memory; hubs apart.

Nodes of few entries go through the kernels by their number of entries, so that the nodes of a tile end together. The
sums of the few hubs are written and multiplied as `all_pairs` does it for all nodes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from graphprism.ops.csr import Csr
from graphprism.ops.csr_sum import csr_sum
from graphprism.ops.csr_sum import triton as csr_sum_kernel
from graphprism.ops.csr_sum.segments import Segments
from graphprism.ops.forms import has_recent_triton
from graphprism.ops.relational_adj import RelationalAdj
from graphprism.ops.relational_linear import triton
from graphprism.ops.relational_linear.node_order import node_order

if not has_recent_triton(triton):
    raise ImportError("the kernels are written for a later Triton than the one that is installed")


def forward(x: Tensor, weight: Tensor, entry_weight: Tensor | None, adj: RelationalAdj) -> Tensor:
    """Sums the neighbours of every node and multiplies the sums, all relations at once."""
    x, weight = x.contiguous(), weight.contiguous()
    with _device_of(x):
        out = x.new_empty(adj.size[1], weight.size(2))
        value = adj.values(adj.incoming.order, entry_weight, x.dtype)
        triton.sum_and_multiply(node_order(adj.incoming).light, adj.incoming, value, x, weight, False, out)
        hub = node_order(adj.incoming).hub
        if hub.numel() > 0:
            out[hub] = _hub_sums(adj.incoming, adj, entry_weight, x) @ weight.flatten(0, 1)
    return out


def backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    entry_weight: Tensor | None,
    adj: RelationalAdj,
    need_x: bool,
    need_weight: bool,
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of ``x`` and ``weight`` from one pass over the reversed edges; more than four relations take more."""
    grad, x, weight = grad.contiguous(), x.contiguous(), weight.contiguous()
    csr = adj.outgoing
    hub = node_order(csr).hub
    with _device_of(x):
        value = adj.values(csr.order, entry_weight, grad.dtype)
        grad_x, total = _light_gradients(csr, value, grad, x, weight, need_x, need_weight)
        if hub.numel() > 0:
            h = _hub_sums(csr, adj, entry_weight, grad)  # (H, R * F_out)
            if grad_x is not None:
                grad_x[hub] = h @ weight.transpose(1, 2).flatten(0, 1)
            if total is not None:
                total += (x[hub].t() @ h).view(x.size(1), *weight.shape[::2]).transpose(0, 1)
    return grad_x, None if total is None else total.to(weight.dtype)


def _light_gradients(
    csr: Csr, value: Tensor | None, grad: Tensor, x: Tensor, weight: Tensor, need_x: bool, need_weight: bool
) -> tuple[Tensor | None, Tensor | None]:
    nodes, relations = node_order(csr).light, range(0, csr.num_relations, triton.GROUP)
    grad_x = torch.empty_like(x) if need_x else None
    at_once = need_weight and len(relations) == 1
    if grad_x is not None and not at_once:
        triton.sum_and_multiply(nodes, csr, value, grad, weight, True, grad_x)
    if not need_weight:
        return grad_x, None
    target = grad_x if at_once else None
    parts = [triton.weight_gradient(nodes, csr, value, grad, x, weight, first, target) for first in relations]
    return grad_x, torch.cat(parts)


def _hub_sums(csr: Csr, adj: RelationalAdj, entry_weight: Tensor | None, dense: Tensor) -> Tensor:
    """The sums of the hubs, relations side by side: (H, R * F)."""
    hubs = node_order(csr).hub_csr
    value = adj.values(hubs.order, entry_weight, dense.dtype)
    if dense.is_cuda:  # whatever their number: only this kernel cuts long rows
        if "segments" not in hubs.cache:
            hubs.cache["segments"] = Segments.cut(hubs.rowptr)
        sums = csr_sum_kernel.csr_sum(hubs.cache["segments"], hubs.col, value, dense, hubs.rowptr.numel() - 1)
    else:
        sums = csr_sum(hubs.rowptr, hubs.col, value, dense)
    return sums.view(hubs.num_rows, hubs.num_relations * dense.size(1))


def _device_of(x: Tensor) -> AbstractContextManager[object]:
    # Triton launches on the current device
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()
