import pytest
import torch

from graphprism.datasets import DATASETS
from graphprism.datasets.packed_dataset import pack_nodes


@pytest.mark.parametrize(
    ("number", "dtype"),
    [(0.0, torch.uint8), (255.0, torch.uint8), (256.0, torch.float32), (-1.0, torch.float32), (0.5, torch.float32)],
)
def test_features_that_are_small_whole_numbers_take_a_byte(number, dtype):
    # More rows than are looked at at a time, and the number among the last of them.
    x = torch.zeros(70_000, 2, dtype=torch.float64)
    x[-1, 0] = number
    mask = torch.ones(70_000, 1)
    edges, y = torch.tensor([[0], [1]]), torch.zeros(70_000, dtype=torch.long)
    dataset = pack_nodes("cora", DATASETS["cora"], x, edges, y, (mask, 1 - mask, 1 - mask), note="Mine.")
    assert dataset.x.dtype == dtype
    assert dataset.graph(0).x[-1].tolist() == [number, 0]
    assert (dataset.train_mask.dtype, int(dataset.train_mask.sum()), int(dataset.val_mask.sum())) == (
        torch.bool,
        70_000,
        0,
    )
    assert (dataset.directed, dataset.num_outputs, dataset.note) == (False, 7, "Mine.")
