import pytest
import torch

from graphprism.datasets import molecules
from graphprism.training import Run
from graphprism.training.lockstep.data import TableDataset
from graphprism.training.train import runs_at_once
from tests.training.lockstep.eager import CPU

DATASET, RUN = molecules(24), Run(layers=1, width=6)


@pytest.mark.parametrize(("count", "expected"), [(1, 1), (8, 8), (9, 5), (16, 8), (17, 6)])
def test_a_grid_is_divided_evenly(count, expected):
    runs = [Run(layers=1, width=6, seed=seed) for seed in range(count)]
    assert runs_at_once(runs, DATASET, None, CPU) == expected


@pytest.mark.gpu
def test_on_a_gpu_the_memory_decides(monkeypatch):
    device = torch.device("cuda")
    data = TableDataset(RUN, DATASET, device, torch.float32)
    runs = [Run(layers=1, width=6, seed=seed) for seed in range(100)]
    assert runs_at_once(runs, DATASET, data, device) == 50
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1, 1))
    assert runs_at_once(runs, DATASET, data, device) == 1
