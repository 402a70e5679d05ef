from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.training import Run, build_model
from graphprism.training.build_model import make_network
from graphprism.training.lockstep.stacked_parameters import StackedParameters
from tests.pairwise import in_turn
from tests.training.lockstep.eager import CPU, MODELS

DATASET = molecules(12)
RUN = Run(layers=2, width=10, precision="float64", start="independent")


def make(run, wide=16, low=None, **more):
    networks = [build_model(replace(run, seed=seed), DATASET).double() for seed in range(2)]
    return networks, StackedParameters(networks, make_network(run, DATASET, wide).double(), run.pe, CPU, low, **more)


@in_turn(model=[*MODELS], options=[{}, {"pe": 3}, {"jk": "cat", "pe": 3}, {"norm": "batch"}, {"width": 16}])
def test_what_is_put_in_comes_out(model, options):
    networks, parameters = make(replace(RUN, model=model, **options))
    for number, network in enumerate(networks):
        found = parameters.extract(number)
        assert found.keys() == network.state_dict().keys()
        torch.testing.assert_close(found, dict(network.state_dict()), rtol=0, atol=0)
    # nothing else is there: channels that fill up the width are zero
    for number, network in enumerate(networks):
        own = sum(weight.count_nonzero() for weight in network.parameters())
        assert parameters.flat[number].count_nonzero() == own


def test_leaves_are_views_of_the_flat_tensor_in_the_shape_of_the_template():
    networks, parameters = make(RUN)
    template = dict(make_network(RUN, DATASET, 16).named_parameters())
    leaves = parameters.leaves()
    assert leaves.keys() == template.keys()
    for name, leaf in leaves.items():
        assert leaf.shape == (2, *template[name].shape)
        assert leaf.requires_grad
        assert leaf.is_leaf
        # all begin where matrix units like it
        assert leaf.untyped_storage().data_ptr() == parameters.flat.untyped_storage().data_ptr()
        assert leaf.storage_offset() % 64 == 0
    weight = leaves["convs.0.lin.weight"]
    assert weight.transpose(1, 2).flatten(2).data_ptr() == weight.data_ptr()  # side by side without a copy
    assert weight[1, :, :10, :10].equal(networks[1].convs[0].lin.weight)
    assert weight[1, :, 10:].count_nonzero() == weight[1, :, :, 10:].count_nonzero() == 0


@pytest.mark.parametrize(("summed_last", "strides"), [(False, (16, 48, 1)), (True, (256, 1, 16))])
def test_two_orders_of_matrices(summed_last, strides):
    networks, parameters = make(RUN, summed_last=summed_last)
    weight = parameters.leaves()["convs.0.lin.weight"]
    assert weight.shape == (2, 3, 16, 16)
    assert weight.stride()[1:] == strides
    for number, network in enumerate(networks):
        torch.testing.assert_close(parameters.extract(number), dict(network.state_dict()), rtol=0, atol=0)
    gradients = {name: torch.zeros_like(leaf) for name, leaf in parameters.leaves().items()}
    gradients["convs.0.lin.weight"] = torch.empty_like(weight).copy_(weight)  # stored as the weight is
    places = dict(zip(gradients, parameters.pieces(gradients), strict=True))
    piece = places["convs.0.lin.weight"]
    assert piece.data_ptr() == gradients["convs.0.lin.weight"].data_ptr()  # not copied
    begin = dict(zip(gradients, parameters.begins, strict=True))["convs.0.lin.weight"]
    assert piece.equal(parameters.flat[:, begin : begin + piece.size(1)])


def test_positional_channels_stay_the_last():
    networks, parameters = make(replace(RUN, pe=3, jk="cat"))
    leaves = parameters.leaves()
    assert leaves["encoder.weight"].shape == (2, 28, 13)
    assert leaves["encoder.weight"][0, :, :7].equal(networks[0].encoder.weight)
    own, wide = networks[0].convs[0].lin.weight, leaves["convs.0.lin.weight"][0]
    assert wide[:, 13:, :7].equal(own[:, 7:, :7])
    assert wide[:, :7, 13:].equal(own[:, :7, 7:])
    assert wide[:, 7:13].count_nonzero() == 0
    head = leaves["head.weight"][0]  # two layers side by side
    assert head.shape == (1, 32)
    assert head[:, [*range(7), 13, 14, 15, *range(16, 23), 29, 30, 31]].equal(networks[0].head.weight)


def test_gradients_are_pieces_that_stand_where_their_weights_do():
    _, parameters = make(replace(RUN, model="mrs-gcn"))
    gradients = {name: leaf.detach() for name, leaf in parameters.leaves().items()}
    for without in (None, "convs.0.lin.weight"):
        pieces = parameters.pieces({name: None if name == without else each for name, each in gradients.items()})
        gathered = torch.zeros_like(parameters.flat)
        for begin, piece in zip(parameters.begins, pieces, strict=True):
            gathered[:, begin : begin + piece.size(1)] = piece
        changed = (gathered != parameters.flat).sum(1)
        expected = gradients[without].flatten(1).count_nonzero(1) if without else torch.zeros(2)
        assert changed.tolist() == expected.tolist()
    # what autograd gives for the matrices of relations is stored as they are: no copy
    stored = torch.zeros(2, 16, 3, 16, dtype=torch.float64)
    pieces = parameters.pieces({**gradients, "convs.0.lin.weight": stored.transpose(1, 2)})
    assert pieces[list(gradients).index("convs.0.lin.weight")].data_ptr() == stored.data_ptr()


def test_low_precision_of_all_but_the_head():
    _, parameters = make(RUN, low=torch.bfloat16)
    for name, leaf in parameters.leaves().items():
        assert leaf.dtype == (torch.float64 if name.startswith("head.") else torch.bfloat16)
    assert parameters.flat.dtype == torch.float64
    assert parameters.extract(0)["encoder.weight"].dtype == torch.float64


def test_the_weights_of_low_precision_follow_the_others():
    networks, parameters = make(RUN, low=torch.bfloat16)
    assert parameters.used.equal(parameters.flat.to(torch.bfloat16))
    parameters.load(0, networks[1].state_dict())
    assert parameters.used.equal(parameters.flat.to(torch.bfloat16))
    assert parameters.leaves()["encoder.weight"].data_ptr() == parameters.used.data_ptr()
    parameters.flat.mul_(3)
    parameters.refresh()
    assert parameters.used.equal(parameters.flat.to(torch.bfloat16))


def test_other_tensors_of_the_same_layout():
    networks, parameters = make(replace(RUN, norm="batch"))
    buffers = {name: buffer + 5 for name, buffer in parameters.buffers.items()}
    found = parameters.extract(1, 2 * parameters.flat, buffers)
    for name, value in networks[1].state_dict().items():
        is_weight = name in dict(networks[1].named_parameters())
        torch.testing.assert_close(found[name], 2 * value if is_weight else value + 5)
    # a copy: it stays when training goes on
    parameters.flat.zero_()
    assert found["encoder.weight"].count_nonzero()


def test_loading_another_network():
    networks, parameters = make(replace(RUN, norm="batch"))
    other = build_model(replace(RUN, norm="batch", seed=9), DATASET).double()
    other.norms[0].module.running_mean.fill_(3.0)
    alignment = parameters.flat.size(1) - sum(leaf[0].numel() for leaf in parameters.leaves().values())
    parameters.flat[0] = 7.0  # of which nothing is left
    parameters.load(0, other.state_dict())
    own = sum(int(weight.count_nonzero()) for weight in other.parameters())
    assert parameters.flat[0].count_nonzero() == own + alignment
    torch.testing.assert_close(parameters.extract(0), dict(other.state_dict()), rtol=0, atol=0)
    torch.testing.assert_close(parameters.extract(1), dict(networks[1].state_dict()), rtol=0, atol=0)


def test_a_size_that_is_no_width_is_an_error():
    _, parameters = make(RUN)
    with pytest.raises(RuntimeError, match="a size of 15 cannot be put into 20 with widths 10 and 16"):
        parameters._channels(15, 20)
