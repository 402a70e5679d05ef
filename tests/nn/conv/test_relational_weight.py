import pytest
import torch

from graphprism.nn import RelationalWeight


@pytest.mark.parametrize(("init", "bound"), [("glorot", (6 / 96) ** 0.5), ("kaiming_uniform", (1 / 64) ** 0.5)])
def test_every_relation_is_drawn_like_a_layer_of_its_own(init, bound):
    torch.manual_seed(0)
    weight = RelationalWeight(64, 32, 3, init, "independent").weight
    assert weight.shape == (3, 64, 32)
    for matrix in weight:
        assert 0.98 * bound < matrix.abs().max() <= bound
    assert not torch.equal(weight[0], weight[1])


def test_transform_is_one_product_for_every_relation():
    module = RelationalWeight(4, 2, 3).double()
    x = torch.randn(5, 4, dtype=torch.double)
    torch.testing.assert_close(module.transform(x), torch.einsum("nf,rfo->nro", x, module()))


def test_state_of_a_lazy_module_round_trips():
    lazy, other = RelationalWeight(-1, 2, 3), RelationalWeight(-1, 2, 3)
    lazy(torch.ones(1, 4))
    other.load_state_dict(lazy.state_dict())
    assert torch.equal(other(), lazy())
    assert other.in_channels == 4
