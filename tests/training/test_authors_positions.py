"""Laplacian positions as the authors of the paper have them: width, lockstep, signs, rows of the table."""

from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.experiments import DEPTH
from graphprism.nn.models import deep_set
from graphprism.training import Run, build_model, train, train_lockstep
from graphprism.training.build_model import parameters_of, width_of
from tests.pins.node_set import node_set
from tests.training.lockstep.eager import evaluate, make_engine, train_eagerly

DATASET = molecules(24)
RUN = Run(layers=2, width=10, batch_size=8, epochs=2, warmup=0, precision="float64", pe=3, pe_encoder="deepset")
TABLE = Run(layers=8, pe=8, pe_encoder="deepset", node_encoder="atoms")
OGB = 119 + 5 + 12 + 12 + 10 + 6 + 6 + 2 + 2


@pytest.mark.parametrize(("model", "maps", "width"), [("gcn", 1, 238), ("mrs-gcn", 3, 140)])
def test_width_counts_the_tables_of_atoms_and_the_encoder_of_pairs(model, maps, width):
    def count(d):
        encoders = OGB * (d - 8) + 4 * d + (2 * 16 + 16) + (16 * 8 + 8)
        return encoders + 8 * (maps * d * d + d) + d + 1

    assert count(width) <= 500_000 < count(width + 1)
    run = replace(TABLE, model=model)
    assert width_of(run, DATASET) == width
    assert parameters_of(run, DATASET, width) == count(width)
    assert build_model(run, DATASET).encoder.weight.shape == (119, width - 8)


def test_node_encoder_of_atoms_rejects_more_types():
    many = replace(DATASET, node_types=(120,))
    with pytest.raises(ValueError, match=r'nodes must have 1 to 9 columns .* with node_encoder="atoms", got \[120\]'):
        build_model(replace(RUN, node_encoder="atoms"), many)


def test_train_rejects_an_encoder_without_positions():
    with pytest.raises(ValueError, match="`pe` must be at least 1 with pe_encoder='deepset', got 0"):
        train(Run(layers=2, width=8, pe_encoder="deepset"), DATASET, accelerator="cpu")


def test_nodes_reject_the_encoder_of_atoms():
    run = Run(layers=2, width=8, batch_size=None, node_encoder="atoms")
    with pytest.raises(ValueError, match="`node_encoder` must be 'types' for targets of nodes, got 'atoms'"):
        train(run, node_set(), accelerator="cpu")


@pytest.mark.parametrize("options", [{}, {"node_encoder": "atoms", "residual": True}, {"model": "mrs-sage"}], ids=str)
def test_lockstep_equals_every_run_alone_with_the_same_signs(monkeypatch, options):
    monkeypatch.setattr(deep_set, "keep_mask", lambda x, *_: torch.tensor([True, False, True]))
    runs = [replace(RUN, seed=seed, lr=lr, **options) for seed, lr in ((0, 1e-2), (1, 3e-3))]
    engine = make_engine(runs, DATASET)
    trained = engine.train_epoch(0)
    outputs = engine.outputs_of("val")[0]
    for number, run in enumerate(runs):
        network, losses = train_eagerly(run, DATASET)
        assert trained.loss[number] == pytest.approx(losses[0], rel=1e-10)
        torch.testing.assert_close(engine.networks.parameters.extract(number), dict(network.state_dict()))
        torch.testing.assert_close(outputs[number], evaluate(network, run, DATASET, "val"))


def test_lockstep_draws_signs_for_every_run_and_step(monkeypatch):
    drawn, draw = [], deep_set.keep_mask

    def keep(x, share, generator=None):
        drawn.append(draw(x, share, generator))
        return drawn[-1]

    monkeypatch.setattr(deep_set, "keep_mask", keep)
    engine = make_engine([replace(RUN, pe=9, seed=seed) for seed in range(4)], DATASET)
    engine.train_epoch(0)
    signs = [torch._C._functorch.get_unwrapped(each) for each in drawn]
    assert [tuple(each.shape) for each in signs] == [(4, 9)] * 3  # three steps
    assert len({tuple(row) for each in signs for row in each.tolist()}) == 12


@pytest.mark.parametrize("engine", ["eager", "lockstep"])
def test_signs_follow_from_the_seed(engine, tmp_path):
    def numbers(run, folder=None):
        if engine == "eager":
            return train(run, DATASET, accelerator="cpu", folder=folder).history["train_loss"]
        return train_lockstep([run], DATASET, accelerator="cpu", folder=folder)[0].history["train_loss"]

    first = numbers(RUN)
    torch.manual_seed(5)
    assert numbers(RUN, tmp_path) == first
    assert numbers(replace(RUN, seed=1)) != first


def test_depth_table_has_the_authors_positions_beside_ours():
    rows = [row for row in DEPTH.rows if "LapPE" in row]
    assert rows == ["GCN + LapPE", "MRS-GCN + LapPE", "GCN + our LapPE", "MRS-GCN + our LapPE"]
    for cell in DEPTH.cells:
        if "LapPE" in cell.row:
            ours = "our" in cell.row
            assert (cell.paper is None) == ours
            assert (cell.best.pe_encoder, cell.best.node_encoder) == ((None, "types") if ours else ("deepset", "atoms"))
    # the key of the runs that were published before the authors' form existed
    eight = next(cell.best for cell in DEPTH.cells if (cell.row, cell.column) == ("GCN + our LapPE", "8"))
    assert eight.key == Run("zinc12k", "gcn", pe=8, lr=0.0003, start="independent").key
    assert any("Our LapPE" in note for note in DEPTH.notes)
