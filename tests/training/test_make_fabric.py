import pytest
import torch

from graphprism.datasets import molecules
from graphprism.training import Run, train


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"accelerator": "tpu"}, "`accelerator` must be one of auto, cpu, cuda, got 'tpu'"),
        ({"devices": 0}, "`devices` must be at least 1, got 0"),
        ({"nodes": -1}, "`nodes` must be at least 1, got -1"),
        ({"accelerator": "gpu", "devices": 99}, "`devices` must be at most .*, the CUDA devices .*, got 99"),
    ],
)
def test_devices_that_are_not_there(arguments, words):
    with pytest.raises(ValueError, match=words):
        train(Run(epochs=1, layers=1, width=4), molecules(12), **arguments)


@pytest.mark.gpu
def test_a_gpu_does_what_the_cpu_does_and_twice_the_same():
    run = Run(layers=3, width=16, epochs=3, warmup=0, dropout=0.0, precision="float64")
    by_cpu = train(run, molecules(120), accelerator="cpu").history
    before = torch.get_float32_matmul_precision()
    first, second = (train(run, molecules(120), accelerator="gpu", engine="eager").history for _ in range(2))
    for name in ("train_loss", "val", "test"):
        assert first[name] == pytest.approx(by_cpu[name], rel=1e-6)
        assert first[name] == second[name]
    assert torch.get_float32_matmul_precision() == before
