from collections import Counter
from dataclasses import replace

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies

from graphprism.datasets import PackedDataset, describe, molecules
from graphprism.datasets.leak_audit import LeakAudit, leak_audit
from graphprism.training import Run, train
from graphprism.training.node_data import NodeData
from tests.datasets.small_sets import one_graph
from tests.real_data import load_real, needs_data
from tests.training.node_sets import small_run

# Test nodes that the lookup and the commonest class get right, mean over ten splits in percent.
REAL = {"chameleon": (74.0, 21.4), "squirrel": (69.3, 20.0), "chameleon-filtered": (26.9, 25.0)}


def graph_of(edges: list[tuple[int, int]], y: list[int], part: list[int]) -> PackedDataset:
    """A set of one graph with one split; ``part`` says train (0), validation (1) or test (2) of every node."""
    train_mask, val_mask, test_mask = (torch.tensor(part)[:, None] == at for at in range(3))
    return replace(
        one_graph(),
        x=torch.ones(len(y), 1),
        y=torch.tensor(y),
        edge_index=torch.tensor(edges, dtype=torch.long).view(-1, 2).T,
        node_ptr=torch.tensor([0, len(y)]),
        edge_ptr=torch.tensor([0, len(edges)]),
        train_mask=train_mask,
        val_mask=val_mask,
        test_mask=test_mask,
    )


def by_definition(edges: list[tuple[int, int]], y: list[int], part: list[int]) -> LeakAudit:
    def commonest(classes: list[int]) -> int:
        return min(Counter(classes).items(), key=lambda pair: (-pair[1], pair[0]))[0]

    out = [frozenset(target for source, target in edges if source == node) for node in range(len(y))]
    train, test = ([node for node, of in enumerate(part) if of == at] for at in (0, 2))
    majority, right, matched = commonest([y[node] for node in train]), 0, 0
    for node in test:
        same = [y[other] for other in train if out[other] == out[node] and out[node]]
        matched += bool(same)
        right += y[node] == (commonest(same) if same else majority)
    common = sum(y[node] == majority for node in test)
    return LeakAudit(right / len(test), common / len(test), matched / len(test))


def test_by_hand():
    # Nodes 0, 1, 2 and 6 point to 8 and 9, in another order and twice; 3 and 7 to 8 alone; 4 and 5 to nothing.
    edges = [(0, 8), (0, 9), (1, 9), (1, 8), (2, 8), (2, 9), (6, 9), (6, 8), (6, 9), (3, 8), (7, 8)]
    y = [1, 1, 0, 2, 0, 0, 1, 2, 0, 0]
    part = [0, 0, 0, 1, 0, 2, 2, 2, 0, 1]
    # Class 0 is the commonest: right for node 5. Node 6 finds 1, 1 and 0; node 7 only a node of validation.
    assert leak_audit(graph_of(edges, y, part), 0) == (2 / 3, 1 / 3, 1 / 3)


@hypothesis.given(strategies.integers(0, 10_000))
def test_against_the_definition(seed):
    random = np.random.default_rng(seed)
    nodes = int(random.integers(3, 14))
    # Few targets, so that sets are often the same, and edges twice.
    edges = [(int(a), int(b)) for a, b in zip(random.integers(0, nodes, 20), random.integers(0, 3, 20), strict=True)]
    edges = edges[: int(random.integers(0, 21))]
    y, part = random.integers(0, 3, nodes).tolist(), [0, 2, *random.integers(0, 3, nodes - 2).tolist()]
    assert leak_audit(graph_of(edges, y, part)) == pytest.approx(by_definition(edges, y, part))


@hypothesis.given(strategies.integers(0, 10_000), strategies.booleans(), strategies.booleans())
def test_edges_are_those_of_training(seed, undirected, self_loops):
    """The audit of the set as prepared for a run, without the loops that all its nodes have."""
    random = np.random.default_rng(seed)
    nodes = int(random.integers(3, 14))
    edges = random.integers(0, nodes, (int(random.integers(0, 21)), 2)).tolist()
    y, part = random.integers(0, 3, nodes).tolist(), [0, 1, 2, *random.integers(0, 3, nodes - 3).tolist()]
    run = Run(model="gcn", batch_size=None, undirected=undirected, self_loops=self_loops)
    dataset = graph_of(edges, y, part)
    adj = NodeData.prepare(run, dataset, torch.device("cpu")).adj
    pairs = {(int(a), int(b)) for a, b in adj.edge_index.T.tolist()}
    assert not self_loops or all((node, node) in pairs for node in range(nodes))
    seen = [pair for pair in pairs if not self_loops or pair[0] != pair[1]]
    assert leak_audit(dataset, undirected=undirected, self_loops=self_loops) == pytest.approx(
        by_definition(seen, y, part)
    )


def test_audit_of_an_undirected_run_looks_at_both_ways():
    # Nodes 0 and 2 point to 3; 0 is pointed to by 1 as well, which a run that symmetrises edges sees.
    dataset = graph_of([(0, 3), (2, 3), (1, 0)], [1, 0, 1, 0], [0, 0, 2, 1])
    assert leak_audit(dataset).matched == 1
    assert leak_audit(dataset, undirected=True).matched == 0
    extra = [
        train(small_run(model="gcn", epochs=1, undirected=way, width=2), dataset, accelerator="cpu").extra
        for way in (False, True)
    ]
    assert [each["lookup"] for each in extra] == [100, 0]


def test_of_nodes_without_edges_nothing_leaks():
    assert leak_audit(graph_of([], [0, 0, 1, 0], [0, 1, 2, 2])) == (0.5, 0.5, 0.0)


def test_bad_input():
    with pytest.raises(ValueError, match=r"`split_column` must be in \[0, 2\), got 2"):
        leak_audit(one_graph(), 2)
    with pytest.raises(ValueError, match=r"`split_column` must be in \[0, 2\), got -1"):
        leak_audit(one_graph(), -1)
    for column in (True, 0.0):
        with pytest.raises(TypeError, match="`split_column` must be a whole number, got"):
            leak_audit(one_graph(), column)
    with pytest.raises(ValueError, match=r"must be one graph with a class per node, got PackedDataset\('molecules'"):
        leak_audit(molecules(3))
    with pytest.raises(ValueError, match="one has none"):
        leak_audit(replace(one_graph(), train_mask=None))


@needs_data()
@pytest.mark.parametrize("name", REAL)
def test_duplicates_of_real_sets(name):
    dataset = load_real(name)
    audits = np.array([leak_audit(dataset, column) for column in range(10)])
    assert np.round(100 * audits.mean(0)[:2], 1).tolist() == list(REAL[name])


def test_fold_without_test_nodes_has_no_scores_and_no_leak():
    dataset = one_graph()
    empty = replace(dataset, test_mask=torch.zeros_like(dataset.test_mask))
    assert np.isnan(leak_audit(empty)).all()
    assert not any("leak" in line for line in describe(empty))
