"""Graphs for the tests of splitting: by hand, random, batched, renumbered."""

import networkx as nx
import torch
from hypothesis import strategies as st

from graphprism.splitting import Graph


def undirected(edges, num_nodes=None, **attributes):
    """Both directions of every edge of a list of pairs or of a networkx graph."""
    if isinstance(edges, nx.Graph):
        edges, num_nodes = list(edges.edges), edges.number_of_nodes()
    one_way = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    return Graph(torch.cat([one_way, one_way.flip(0)], dim=1), num_nodes, **attributes)


def directed(edges, num_nodes, **attributes):
    return Graph(torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t(), num_nodes, **attributes)


EMPTY = directed([], 0, x=torch.zeros(0, 2), edge_attr=torch.zeros(0, dtype=torch.long))

# Graphs full of nodes that exact arithmetic cannot tell apart.
SYMMETRIC = {
    "cycle": undirected(nx.cycle_graph(12)),
    "star": undirected(nx.star_graph(9)),
    "path": undirected(nx.path_graph(40)),
    "complete": undirected(nx.complete_graph(7)),
    "petersen": undirected(nx.petersen_graph()),
    "grid": undirected(nx.convert_node_labels_to_integers(nx.grid_2d_graph(5, 6))),
    "tree": undirected(nx.balanced_tree(3, 3)),
    "barbell": undirected(nx.barbell_graph(6, 5)),
    "bipartite": undirected(nx.complete_bipartite_graph(3, 8)),
}


@st.composite
def graphs(draw, max_nodes=12, symmetric=None):
    """Directed multigraphs with loops, isolated nodes, features and an edge attribute; possibly empty."""
    num_nodes = draw(st.integers(0, max_nodes))
    node = st.integers(0, max(num_nodes - 1, 0))
    pairs = draw(st.lists(st.tuples(node, node), max_size=30)) if num_nodes else []
    if draw(st.booleans()) if symmetric is None else symmetric:
        pairs = pairs + [(b, a) for a, b in pairs]
    # Tenths are not exact in binary, so equal sums of them differ by rounding.
    tenths = draw(st.lists(st.integers(0, 3), min_size=3 * num_nodes, max_size=3 * num_nodes))
    types = draw(st.lists(st.integers(0, 3), min_size=len(pairs), max_size=len(pairs)))
    x = torch.tensor(tenths, dtype=torch.float64).reshape(num_nodes, 3) / 10
    return directed(pairs, num_nodes, x=x, edge_attr=torch.tensor(types, dtype=torch.long))


def renumber(graph, permutation):
    """The same graph with node v called ``permutation[v]``; the edges keep their places."""
    x = None if graph.x is None else torch.empty_like(graph.x).index_copy_(0, permutation, graph.x)
    return Graph(permutation[graph.edge_index], graph.num_nodes, x=x, edge_attr=graph.edge_attr)


def batch_of(parts):
    """Disjoint union, with ``batch``."""
    shift, numbers = 0, []
    edges = []
    for number, part in enumerate(parts):
        edges.append(part.edge_index + shift)
        numbers += [number] * part.num_nodes
        shift += part.num_nodes
    x = torch.cat([part.x for part in parts])
    edge_attr = torch.cat([part.edge_attr for part in parts])
    return Graph(torch.cat(edges, dim=1), shift, x=x, edge_attr=edge_attr, batch=torch.tensor(numbers).long())
