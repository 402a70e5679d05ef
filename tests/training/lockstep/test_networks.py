from dataclasses import replace

import torch

from graphprism.datasets import molecules
from graphprism.training import Run, build_model
from graphprism.training.lockstep.data import TableDataset
from graphprism.training.lockstep.networks import Networks
from graphprism.training.prepared_data import PreparedDataset
from tests.pairwise import in_turn
from tests.training.lockstep.eager import CPU, MODELS

DATASET = molecules(24)
GRAPHS = torch.tensor([[3, 11, 0], [5, 6, 23]])


@in_turn(model=[*MODELS], width=[10, 16])
def test_outputs_are_those_of_the_networks_alone(model, width):
    run = Run(model=model, layers=3, width=width, precision="float64", pe=2, jk="cat")
    runs = [replace(run, seed=seed) for seed in range(2)]
    data = TableDataset(run, DATASET, CPU, torch.float64)
    networks = Networks(runs, DATASET, data, CPU)
    inputs = data.inputs(data.rows(GRAPHS, 100))
    found = networks(networks.parameters.leaves(), inputs, 3, training=False)
    assert networks.width == width
    for number, one in enumerate(runs):
        alone = build_model(one, DATASET).double().eval()
        (batch,) = PreparedDataset(one, DATASET).batches(GRAPHS[number], 3)
        torch.testing.assert_close(found[number], alone(**batch.inputs))
        assert networks.count == sum(weight.numel() for weight in alone.parameters())


def test_means_are_those_of_the_networks_alone():
    dataset = replace(DATASET, name="peptides-func")
    run = Run(layers=2, width=6, precision="float64")
    networks = Networks([run], dataset, data := TableDataset(run, dataset, CPU, torch.float64), CPU)
    inputs = data.inputs(data.rows(GRAPHS[:1], 100))
    alone = build_model(run, dataset).double().eval()
    (batch,) = PreparedDataset(run, dataset).batches(GRAPHS[0], 3)
    # a fourth graph, without nodes, is all zeros before the head
    expected = torch.cat([alone(**batch.inputs), alone.head.bias[None]])
    torch.testing.assert_close(networks(networks.parameters.leaves(), inputs, 4, training=False)[0], expected)


def test_graphs_are_summed_and_read_in_float32_at_least():
    run = Run(layers=2, width=6, precision="bf16")
    data = TableDataset(run, DATASET, CPU, torch.float32)
    networks = Networks([run], DATASET, data, CPU)
    found = networks(networks.parameters.leaves(), data.inputs(data.rows(GRAPHS[:1], 100)), 3, training=True)
    assert found.dtype == torch.float32


def test_batch_norms_take_note_in_training_only():
    run = Run(layers=2, width=6, precision="float64", norm="batch")
    data = TableDataset(run, DATASET, CPU, torch.float64)
    networks = Networks([run, replace(run, seed=1)], DATASET, data, CPU)
    inputs = data.inputs(data.rows(GRAPHS, 100))
    buffers = {name: buffer.clone() for name, buffer in networks.parameters.buffers.items()}
    networks(networks.parameters.leaves(), inputs, 3, training=False)
    torch.testing.assert_close(networks.parameters.buffers, buffers, rtol=0, atol=0)
    networks(networks.parameters.leaves(), inputs, 3, training=True)
    assert networks.parameters.buffers["norms.0.module.num_batches_tracked"].tolist() == [1, 1]
    mean = networks.parameters.buffers["norms.1.module.running_mean"]
    assert not mean[0].equal(mean[1])


def test_making_networks_draws_nothing_from_the_global_state():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    run = Run(layers=1, width=6)
    Networks([run], DATASET, TableDataset(run, DATASET, CPU, torch.float32), CPU)
    assert torch.get_rng_state().equal(before)


def test_precision():
    for precision, dtype, low in (
        ("float32", torch.float32, torch.float32),
        ("bf16", torch.float32, torch.bfloat16),
        ("float64", torch.float64, torch.float64),
    ):
        run = Run(layers=1, width=6, precision=precision)
        networks = Networks([run], DATASET, TableDataset(run, DATASET, CPU, dtype), CPU)
        assert networks.parameters.flat.dtype == dtype
        assert networks.parameters.leaves()["encoder.weight"].dtype == low
