import time
from collections import Counter
from dataclasses import replace

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies
from typer.testing import CliRunner

from graphprism.cli.app import app
from graphprism.datasets import DatasetFileError, read, save
from graphprism.datasets.packed_file import check_undirected
from tests.datasets.rewrite import rewrite
from tests.datasets.small_sets import one_graph, three_graphs


def by_definition(edges: list[tuple[int, int, int]]) -> int | None:
    """Number of the first edge (graph, source, target) that comes more often than its way back."""
    backward, seen = Counter((graph, target, source) for graph, source, target in edges), Counter()
    for number, edge in enumerate(edges):
        seen[edge] += 1
        if seen[edge] > backward[edge]:
            return number
    return None


@hypothesis.given(strategies.integers(0, 100_000))
def test_check_undirected_against_the_definition(seed):
    rng = np.random.default_rng(seed)
    nodes = rng.integers(0, 4, int(rng.integers(1, 5)))
    edges = []
    for graph, size in enumerate(nodes):
        pairs = rng.integers(0, size, (int(rng.integers(0, 4)), 2)).tolist() if size else []
        both = [*pairs, *(pair[::-1] for pair in pairs if rng.random() < 0.9)]
        edges += [(graph, *both[at]) for at in rng.permutation(len(both))]
    counts = np.bincount([graph for graph, _, _ in edges], minlength=nodes.size)
    edge_index = np.array([edge[1:] for edge in edges], np.uint8).reshape(-1, 2).T
    wanted = by_definition(edges)
    if wanted is None:
        check_undirected(edge_index, nodes, counts)
    else:
        with pytest.raises(ValueError, match=f"edge {wanted}, {edges[wanted][1]} to {edges[wanted][2]}"):
            check_undirected(edge_index, nodes, counts)


ONE_WAY = {"edge_index": np.array([[0, 1, 1, 0], [1, 0, 2, 2]])}
SENTENCE = "must hold the way back of every edge .* got none for edge 2, 1 to 2 of graph 1"


def test_file_with_one_way_edges_that_says_undirected(tmp_path):
    path = rewrite(tmp_path / "set.npz", three_graphs(), ONE_WAY, directed=False)
    with pytest.raises(DatasetFileError, match=SENTENCE):
        read(path)
    run = CliRunner().invoke(app, ["data", "verify", str(path)])
    assert run.exit_code == 1
    assert "edge 2, 1 to 2 of graph 1" in run.stderr
    assert read(rewrite(path, three_graphs(), ONE_WAY, directed=True)).directed


def test_one_way_edges_are_not_saved_as_undirected(tmp_path):
    with pytest.raises(ValueError, match="got none for edge 0, 0 to 1"):
        save(replace(one_graph(), directed=False), tmp_path / "set.npz")
    assert not list(tmp_path.iterdir())


def test_edges_with_another_number_of_copies_are_one_way():
    edge_index = torch.tensor([[0, 1, 0, 2], [1, 0, 1, 2]]).numpy()
    with pytest.raises(ValueError, match="edge 2, 0 to 1"):
        check_undirected(edge_index, np.array([3]), np.array([4]))


def test_a_million_edges_take_less_than_a_tenth_of_a_second():
    rng = np.random.default_rng(0)
    half = rng.integers(0, 100_000, (2, 500_000))
    edge_index = np.concatenate([half, half[::-1]], axis=1)
    seconds = []
    for _ in range(3):
        start = time.process_time()
        check_undirected(edge_index, np.array([100_000]), np.array([1_000_000]))
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.1
