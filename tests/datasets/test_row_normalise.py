import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import NormalizeFeatures

from graphprism.datasets import row_normalise
from tests.datasets.small_sets import one_graph, three_graphs


def test_by_hand():
    x = torch.tensor([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0], [0.2, 0.2, 0.1]])
    assert torch.allclose(row_normalise(x), torch.tensor([[0.25, 0.75, 0.0], [0.0, 0.0, 0.0], [0.4, 0.4, 0.2]]))
    assert x[0].tolist() == [1, 3, 0], "the input was changed"


def test_positive_features_are_not_lowered():
    assert row_normalise(torch.tensor([[1.0, 3.0], [2.0, 2.0]])).tolist() == [[0.25, 0.75], [0.5, 0.5]]


def test_negative_features_are_lifted_by_the_smallest_of_all():
    found = row_normalise(torch.tensor([[-1.0, 1.0], [0.0, 3.0]]))
    assert torch.allclose(found, torch.tensor([[0.0, 1.0], [0.2, 0.8]]))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32])
def test_equals_pyg_where_no_row_sums_to_less_than_one(dtype):
    x = (torch.rand(40, 9, generator=torch.Generator().manual_seed(0)) * 3).floor().to(dtype)
    x[::7] = 0
    wanted = NormalizeFeatures()(Data(x=x.float())).x
    torch.testing.assert_close(row_normalise(x), wanted)
    torch.testing.assert_close(row_normalise(x.float() - 1.5), NormalizeFeatures()(Data(x=x.float() - 1.5)).x)


def test_double_stays_double_and_nothing_stays_nothing():
    assert row_normalise(torch.ones(2, 4, dtype=torch.float64)).dtype == torch.float64
    assert row_normalise(torch.ones(0, 4)).shape == (0, 4)
    assert row_normalise(torch.ones(3, 0)).shape == (3, 0)


def test_bad_input():
    with pytest.raises(ValueError, match=r"`x` must have shape \[N, F\], got \[3\]"):
        row_normalise(torch.ones(3))
    with pytest.raises(ValueError, match="`x` must not hold NaN"):
        row_normalise(torch.tensor([[1.0, torch.nan]]))


def test_of_a_data_set():
    dataset = one_graph()
    assert torch.allclose(dataset.normalised().graph(0).x, torch.tensor([[1 / 3, 2 / 3], [0, 1], [1, 0]]))
    assert dataset.x[0].tolist() == [0.5, 1.0]
    with pytest.raises(ValueError, match="three has types of nodes"):
        three_graphs().normalised()
