from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.nn import CONVOLUTIONS
from graphprism.splitting import by_order, resolve_split
from graphprism.training import Run
from graphprism.training import prepared_data as module
from graphprism.training.prepared_data import edge_needs, positions, split_graphs
from graphprism.transforms import LaplacianPE, RandomWalkPE

DATASET = molecules(12)
WHOLE = DATASET.batch(torch.arange(12))


@pytest.mark.parametrize("model", CONVOLUTIONS)
def test_what_a_convolution_needs(model):
    norms = {"gcn": "sym", "sage": "mean", "dir-gcn": "dir"}
    norm = norms.get(model.removeprefix("mrs-"), "none")
    takes_edges = model.removeprefix("mrs-") in ("gated-gcn", "gated-gcn-9", "gcne", "gine")
    assert edge_needs(Run(model=model), DATASET) == (norm, takes_edges)
    assert edge_needs(Run(model=model), replace(DATASET, edge_attr=None, edge_types=())) == (norm, False)


def test_asking_draws_no_numbers():
    before = torch.get_rng_state()
    edge_needs(Run(), DATASET)
    assert torch.get_rng_state().equal(before)


def test_the_whole_is_split_as_its_parts_are():
    (adj,) = split_graphs(Run(split="degree"), DATASET, WHOLE)
    assert (adj.num_relations, adj.size, adj.edge_weight) == (3, (WHOLE.num_nodes,) * 2, None)
    assert adj.edge_index.equal(WHOLE.edge_index)
    parts = [by_order("degree")(DATASET.graph(number)) for number in range(12)]
    assert adj.edge_type.equal(torch.cat(parts))
    both = resolve_split("degree,ppr")
    (adj,) = split_graphs(Run(split="degree,ppr"), DATASET, WHOLE)
    assert adj.edge_type.equal(torch.cat([both(DATASET.graph(number)) for number in range(12)]))


def test_models_of_one_relation_have_no_split():
    (adj,) = split_graphs(Run(model="gcn", split="bfs"), DATASET, WHOLE)
    assert (adj.num_relations, adj.edge_type) == (1, None)


@pytest.mark.parametrize("at_once", [1, 5, 64])
def test_positions_are_those_of_every_graph_alone(monkeypatch, at_once):
    monkeypatch.setattr(module, "_POSITIONS_AT_ONCE", at_once)
    found, of_edges = positions(Run(pe=3), DATASET)
    assert of_edges is None
    assert found.shape == (WHOLE.num_nodes, 3)
    expected = [LaplacianPE(3)(DATASET.graph(number).contiguous()).pe for number in range(12)]
    torch.testing.assert_close(found, torch.cat(expected))


def test_positions_by_walks_are_those_of_every_graph_alone():
    run = Run(pe=3, pe_encoder="walk", walk_steps=4)
    assert positions(run, DATASET)[1] is None
    transform = RandomWalkPE(4, edge_attr_name="edge_pe")
    alone = [transform(DATASET.graph(number)) for number in range(12)]
    found, of_edges = positions(replace(run, edge_walks=True), DATASET)
    torch.testing.assert_close(found, torch.cat([each.pe for each in alone]))
    torch.testing.assert_close(of_edges, torch.cat([each.edge_pe for each in alone]))
