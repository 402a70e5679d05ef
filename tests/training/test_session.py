"""Sessions of several runs that were interrupted at different epochs."""

import pytest

from graphprism.datasets import molecules
from graphprism.training import Run, train, train_lockstep
from tests.training.checkpoints import parts_of, same_bits

AHEAD, BEHIND = (Run(layers=1, width=4, epochs=3, warmup=0, batch_size=16, seed=seed) for seed in (0, 1))


def stop_at(epoch):
    def on_epoch(report):
        if report.epoch == epoch:
            raise KeyboardInterrupt

    return on_epoch


def test_run_that_waits_for_others_keeps_its_checkpoint(tmp_path):
    dataset = molecules(60)
    with pytest.raises(KeyboardInterrupt):
        train(AHEAD, dataset, folder=tmp_path, accelerator="cpu", on_epoch=stop_at(2))
    before = parts_of(tmp_path, AHEAD)
    with pytest.raises(KeyboardInterrupt):  # in the first epoch of the other run, beside which this one waits
        train_lockstep([AHEAD, BEHIND], dataset, folder=tmp_path, accelerator="cpu", on_epoch=stop_at(1))
    assert len(parts_of(tmp_path, BEHIND)["history"]["val"]) == 1
    assert same_bits(parts_of(tmp_path, AHEAD), before)
    with pytest.warns(UserWarning, match="by plain steps on cpu up to epoch 2 and goes on by steps in lockstep on cpu"):
        together = train_lockstep([AHEAD, BEHIND], dataset, folder=tmp_path, accelerator="cpu")
    assert [len(result.history["val"]) for result in together] == [3, 3]
