import os
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

from graphprism.analysis import inspect_graph
from graphprism.analysis.certificate import certify, weighted_in_degrees
from graphprism.io import read_graph
from graphprism.splitting import ORDERINGS, Graph, by_order

PATH = Graph(torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), 4)


def test_every_ordering_but_features():
    comparison = inspect_graph(PATH)
    assert comparison.names == tuple(name for name in ORDERINGS if name != "features")
    assert comparison.skipped == (("features", "the nodes have no features `x`"),)
    assert all(comparison[name] == certify(PATH, name) for name in comparison.names)


def test_every_ordering_with_features():
    graph = Graph(PATH.edge_index, 4, x=torch.arange(4.0)[:, None])
    comparison = inspect_graph([graph, graph], aggregation="sym")
    assert comparison.names == tuple(ORDERINGS)
    assert comparison.skipped == ()
    assert comparison["features"] == certify([graph, graph], "features", aggregation="sym")


def test_a_file(tmp_path):
    file = tmp_path / "path.csv"
    file.write_text("0,1\n1,2\n2,3\n")
    assert inspect_graph(str(file)) == inspect_graph(read_graph(file))
    assert "degree" in str(inspect_graph(file))


@pytest.mark.skipif("GRAPHPRISM_DATA" not in os.environ, reason="needs the folder of data in GRAPHPRISM_DATA")
def test_zinc12k():
    graph = read_graph(Path(os.environ["GRAPHPRISM_DATA"]) / "zinc12k.npz")
    certificate = certify(graph, "degree")
    assert certificate.num_graphs == 12_000
    assert certificate.rank_counts == (0, 0, 7, 11_993)
    edge_type = by_order("degree")(graph)
    rows = weighted_in_degrees(graph.edge_index, edge_type, graph.num_nodes, 3).numpy()
    batch = graph.batch.numpy()
    for number in range(0, 12_000, 600):  # all pairs of twenty molecules
        alone = rows[batch == number]
        expected = sum(np.cross(a, b).any() for a, b in combinations(alone, 2))
        chosen = graph.batch[graph.edge_index[0]] == number
        part = Graph(graph.edge_index[:, chosen] - int((graph.batch < number).sum()), len(alone))
        assert certify(part, edge_type[chosen], num_relations=3).independent_pairs == expected
