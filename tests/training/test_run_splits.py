"""Runs by products of splits, with the relations that occur, and by a split for each layer."""

from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.splitting import SplitSyntaxError, split_text
from graphprism.training import Run, build_model, load_best, train, train_lockstep
from graphprism.training.lockstep.data import TableDataset, _gray_rank, _tiles
from graphprism.training.prepared_data import PreparedDataset
from graphprism.training.run_splits import relations_of, run_splits, split_input
from tests.training.node_sets import small_run, small_set

DATASET = molecules(60)
RUN = Run(layers=3, width=10, epochs=2, warmup=0, batch_size=16, precision="float64", split="degree * attr(edge_attr)")
SCORES = ("train_loss", "train", "val", "test")


def test_relations_that_do_not_occur_are_left_out():
    occurring = torch.unique(DATASET.edge_attr).tolist()
    assert 0 not in occurring
    assert relations_of(replace(RUN, split="attr(edge_attr)"), DATASET) == len(occurring)
    (split,) = run_splits(RUN, DATASET)
    assert split.num_relations == relations_of(RUN, DATASET) < 12
    assert build_model(RUN, DATASET).num_relations == split.num_relations
    # as text it is the same split for every fold and for new graphs
    again = replace(RUN, split=split_text(split))
    assert run_splits(again, molecules(5)) == (split,)


def test_budget_counts_the_relations_that_occur():
    run = Run(split="degree * attr(edge_attr)", layers=2, budget=20_000, start="independent")
    model = build_model(run, molecules(40))
    assert 15_000 < sum(weight.numel() for weight in model.parameters()) <= 20_000


def test_split_by_order_keeps_three_relations():
    assert relations_of(Run(split="degree"), DATASET) == 3
    assert relations_of(Run(split="degree", model="gcn"), DATASET) == 1


def test_run_refuses_a_split_that_is_none():
    with pytest.raises(SplitSyntaxError, match="at character 10"):
        Run(split="degree * atr(edge_attr)")


@pytest.mark.parametrize("split", ["degree * attr(edge_attr)", "degree * attr(edge_attr) * similarity", "curvature"])
def test_products_in_lockstep_equal_those_alone(split):
    runs = [replace(RUN, split=split, seed=seed, start="independent") for seed in range(2)]
    together = train_lockstep(runs, DATASET, accelerator="cpu")
    assert {result.engine for result in together} == {"lockstep"}
    for run, result in zip(runs, together, strict=True):
        alone = train(run, DATASET, accelerator="cpu")
        for name in SCORES:
            assert result.history[name] == pytest.approx(alone.history[name], rel=1e-9)


def test_many_relations_leave_out_pairs():
    data = TableDataset(
        replace(RUN, split="degree * attr(edge_attr) * similarity"), DATASET, torch.device("cpu"), torch.float64
    )
    assert data.num_relations > 8
    assert data.leaves_out_pairs


def test_neighbours_in_the_order_of_sets_differ_in_one_relation():
    bits = torch.arange(1 << 12, dtype=torch.int32)
    ordered = bits[_gray_rank(bits).argsort()]
    changed = ordered[1:] ^ ordered[:-1]
    assert bool((changed & (changed - 1) == 0).all())


def test_tiles_join_the_bits_of_their_rows():
    bits = torch.zeros(1, 70, dtype=torch.int32)
    bits[0, 3], bits[0, 5], bits[0, 69] = 1 << 29, 1, 1 << 8
    assert _tiles(bits, 30).tolist() == [[(1 << 29) + 1, 1 << 8]]


def test_layers_have_splits_of_their_own(tmp_path):
    run = replace(RUN, split="degree; attr(edge_attr)", start="independent")
    model = build_model(run, DATASET)
    counts = [3, relations_of(replace(RUN, split="attr(edge_attr)"), DATASET), 3]
    assert [conv.num_relations for conv in model.convs] == counts
    (batch,) = PreparedDataset(run, DATASET).batches(torch.arange(5), 5)
    assert [adj.num_relations for adj in batch.adj] == counts[:2]
    (result,) = train_lockstep([run], DATASET, accelerator="cpu", folder=tmp_path)
    assert result.engine == "eager"
    assert load_best(tmp_path, run, DATASET).convs[1].num_relations == counts[1]


def test_equal_splits_of_layers_are_one_split():
    one, two = (train(replace(RUN, split=split), DATASET, accelerator="cpu") for split in ("degree", "degree; degree"))
    assert one.history["val"] == pytest.approx(two.history["val"], rel=1e-9)
    assert one.key != two.key


def test_nodes_have_splits_of_layers_and_products():
    dataset, run = small_set(), small_run(model="mrs-gcn", jk=None, split="degree * similarity; ppr", epochs=2)
    result = train(run, dataset, accelerator="cpu")
    assert result.status == "finished"
    assert build_model(run, dataset).convs[1].num_relations == 3


def test_loops_that_a_run_adds_are_a_relation_of_edge_types():
    dataset = small_set()
    types = torch.arange(dataset.edge_index.size(1)) % 3
    dataset = replace(dataset, edge_attr=types[:, None])
    run = small_run(model="mrs-gcn", jk=None, split="attr(edge_attr)", epochs=1)
    assert relations_of(run, dataset) == 3
    with_loops = replace(run, self_loops=True)
    assert relations_of(with_loops, dataset) == 4
    graph = split_input(with_loops, dataset)
    loops = graph.edge_index[0] == graph.edge_index[1]
    assert int(loops.sum()) == dataset.x.size(0)
    assert train(with_loops, dataset, accelerator="cpu").status == "finished"
    with pytest.raises(ValueError, match="must have an attribute `edge_attr`"):
        relations_of(replace(run, undirected=True), dataset)


def test_learned_split_is_trained_one_run_at_a_time(tmp_path):
    run = replace(RUN, learned_split=True, split="degree", start="independent")
    (result,) = train_lockstep([run], DATASET, accelerator="cpu", folder=tmp_path)
    assert result.engine == "eager"
    assert result.parameters > train(replace(run, learned_split=False), DATASET, accelerator="cpu").parameters
    learned = load_best(tmp_path, run, DATASET).learned_split
    assert float(learned.out.weight.detach().abs().max()) > 0
    with pytest.raises(ValueError, match="`learned_split` must be False for a model without relations"):
        replace(run, model="gcn")


@pytest.mark.parametrize("model", ["mrs-gat", "mrs-dir-gat"])
def test_attention_takes_no_learned_split(model):
    with pytest.raises(ValueError, match=f"`learned_split` must be False for {model}, whose attention"):
        train(replace(RUN, model=model, learned_split=True), DATASET, accelerator="cpu")


def test_learned_split_starts_from_one_relation_for_each_edge():
    with pytest.raises(ValueError, match="`split` must give each edge one relation with `learned_split`, got 'soft"):
        train(replace(RUN, learned_split=True, split="soft(degree)"), DATASET, accelerator="cpu")


def test_learned_split_of_nodes():
    run = small_run(model="mrs-gcn", jk=None, normalize=False, epochs=2, learned_split=True)
    assert train(run, small_set(), accelerator="cpu").status == "finished"
