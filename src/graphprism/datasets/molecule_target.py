"""A number that depends on what lies several hops apart in a molecule."""

from __future__ import annotations

import numpy as np

from graphprism.packed import Array

# So many graphs at a time, as dense matrices: 512 of 37 atoms are 3 MB in single precision.
_CHUNK = 512
# Of the 12,000 graphs of seed 0, so that their targets have about mean 0 and deviation 1.
_MEAN, _DEVIATION = -0.64, 4.7


def molecule_target(types: Array, edge_index: Array, node_ptr: Array, edge_ptr: Array) -> Array:
    r"""One target per graph, from rings, branching and types two bonds apart: (ΣN,), (2, ΣE), (G + 1,) twice -> (G,).

    .. math:: y = \sum_i s_i (r^6_i - r^5_i) + \sum_{i, j} s_i P_{ij} s_j - |B|

    where :math:`r^k_i` is the number of rings of :math:`k` atoms through atom :math:`i`, :math:`P_{ij}` the number of
    paths of two bonds from :math:`i` to :math:`j`, :math:`B` the bonds between atoms of three or more neighbours and
    :math:`s_i = \cos(2 t_i + 2)` a number for type :math:`t_i`; then shifted and scaled by constants. Rings are
    counted by walks that do not turn back, which is exact in graphs without rings of three or four atoms.
    """
    raw = [
        _chunk_target(types, edge_index, node_ptr[start : start + _CHUNK + 1], edge_ptr[start : start + _CHUNK + 1])
        for start in range(0, node_ptr.size - 1, _CHUNK)
    ]
    return ((np.concatenate(raw) - _MEAN) / _DEVIATION).astype(np.float32)


def _chunk_target(types: Array, edge_index: Array, node_ptr: Array, edge_ptr: Array) -> Array:
    sizes = np.diff(node_ptr)
    graph = np.repeat(np.arange(sizes.size), sizes)
    t = types[node_ptr[0] : node_ptr[-1]].astype(np.int64)
    score = np.zeros((sizes.size, sizes.max()))
    score[graph, np.arange(graph.size) - (node_ptr[:-1] - node_ptr[0])[graph]] = np.cos(2 * t + 2)
    adj = np.zeros((sizes.size, sizes.max(), sizes.max()), np.float32)
    source, target = edge_index[:, edge_ptr[0] : edge_ptr[-1]]
    adj[np.repeat(np.arange(sizes.size), np.diff(edge_ptr)), source, target] = 1
    degree = adj.sum(axis=2)
    paths, fives, sixes = _walks(adj, degree)
    branching = ((degree >= 3)[:, :, None] * adj * (degree >= 3)[:, None, :]).sum(axis=(1, 2)) / 2
    two_apart = (score * (paths @ score[:, :, None])[:, :, 0]).sum(axis=1)
    total: Array = (score * (sixes - fives)).sum(axis=1) + two_apart - branching
    return total


def _walks(adj: Array, degree: Array) -> tuple[Array, Array, Array]:
    """Paths of two bonds (G, N, N), and rings of five and of six atoms through each atom, (G, N) and (G, N).

    Walks of k bonds that never turn back: A_1 = A, A_2 = A A - D, A_k+1 = A_k A - A_k-1 (D - 1). Those that close
    run around a ring, in either direction.
    """
    one = adj
    two = one @ adj
    diagonal = np.arange(adj.shape[1])
    two[:, diagonal, diagonal] -= degree
    walks = [one, two]
    while len(walks) < 6:
        walks.append(walks[-1] @ adj - walks[-2] * np.maximum(degree - 1, 0)[:, None, :])
    fives, sixes = (walk[:, diagonal, diagonal] / 2 for walk in walks[4:])
    return two, fives, sixes
