"""Random small graphs for the tests of this folder."""

import networkx as nx
import torch
from hypothesis import strategies as st

from graphprism.splitting import Graph


@st.composite
def graphs(draw, max_nodes=7, max_edges=14):
    """A directed graph, with loops and double edges."""
    num_nodes = draw(st.integers(1, max_nodes))
    node = st.integers(0, num_nodes - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=max_edges))
    return Graph(torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t(), num_nodes)


@st.composite
def split_graphs(draw, max_relations=3):
    """A graph, the relation of each of its edges, and the number of relations."""
    graph = draw(graphs())
    num_relations = draw(st.integers(1, max_relations))
    count = graph.edge_index.size(1)
    types = draw(st.lists(st.integers(0, num_relations - 1), min_size=count, max_size=count))
    return graph, torch.tensor(types, dtype=torch.long), num_relations


def as_networkx(graph):
    """The same graph for networkx."""
    other = nx.MultiDiGraph()
    other.add_nodes_from(range(graph.num_nodes))
    other.add_edges_from(graph.edge_index.t().tolist())
    return other


def together(graphs):
    """Several graphs as one batch."""
    starts = torch.tensor([0, *(graph.num_nodes for graph in graphs)]).cumsum(0)
    return Graph(
        torch.cat([graph.edge_index + start for graph, start in zip(graphs, starts, strict=False)], dim=1),
        num_nodes=int(starts[-1]),
        batch=torch.cat([torch.full((graph.num_nodes,), number) for number, graph in enumerate(graphs)]),
    )
