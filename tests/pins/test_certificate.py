"""The figures of certificates, and the numbers in their sentences but not the words."""

import json
import re

import networkx
import torch

from graphprism.analysis import certify
from graphprism.datasets import molecules
from graphprism.splitting import Graph
from tests.pins.pinned import as_json, differences, pinned

AGGREGATIONS = ("sum", "mean", "relation_mean", "sym")
PROPERTIES = ("num_relations", "rank", "mean_rank", "share", "balance")


def graphs():
    molecule = molecules(1).graph(0)
    karate, grid = (
        networkx.convert_node_labels_to_integers(graph)
        for graph in (networkx.karate_club_graph(), networkx.grid_2d_graph(3, 4))
    )
    return {
        "molecule": Graph(molecule.edge_index, int(molecule.num_nodes)),
        "karate club": from_networkx(karate),
        "grid": from_networkx(grid),
    }


def from_networkx(graph):
    edges = sorted((*graph.edges, *((v, u) for u, v in graph.edges)))
    return Graph(torch.tensor(edges).T.contiguous(), graph.number_of_nodes())


def measure():
    return {
        f"{name}, {aggregation}": figures(certify(graph, "degree", aggregation=aggregation))
        for name, graph in graphs().items()
        for aggregation in AGGREGATIONS
    }


def figures(certificate):
    return {
        **json.loads(certificate.to_json()),
        **{name: getattr(certificate, name) for name in PROPERTIES},
        "numbers of the sentence": re.findall(r"\d[\d.,]*\d|\d", certificate.sentence),
    }


def test_certificates_of_three_graphs():
    # in-degrees of "mean" and "sym" are sums of fractions, whose last bits depend on their order
    assert differences(as_json(measure()), pinned("certificate"), rel=1e-12) == []
