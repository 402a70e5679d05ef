"""A checkpoint names how its steps were taken; a run that is resumed in another way says that its bits differ."""

import sys
from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.training import Run, train, train_lockstep
from graphprism.training.captured_graphs import CapturedGraphs
from graphprism.training.provenance import digest
from tests.training.checkpoints import parts_of, same_bits
from tests.training.node_sets import small_run, small_set

DATASET = molecules(60)
RUN = Run(layers=1, width=4, epochs=3, warmup=0, batch_size=16)
# lockstep has no remedies, so that the eager engine takes its steps
REMEDY = replace(RUN, layers=2, model="gcn", remedy="gcnii")


def begin(folder, run=RUN, dataset=DATASET, **options):
    def stop(report):
        return report.epoch == 2

    train(run, dataset, folder=folder, accelerator="cpu", on_epoch=stop, **options)
    return parts_of(folder, run)["steps"]


def resume(folder, run=RUN, dataset=DATASET, **options):
    return train(run, dataset, folder=folder, accelerator="cpu", **options)


@pytest.fixture
def captures(monkeypatch):
    """The padded steps of a capture, which a CPU takes without one."""
    module = sys.modules["graphprism.training.train"]  # the package's name is that of the function
    monkeypatch.setattr(module, "captures_steps", lambda run, dataset, engine, device, processes: engine != "eager")


def test_checkpoint_names_its_steps(tmp_path, captures):
    assert begin(tmp_path / "a", engine="eager") == "plain steps on cpu"
    assert begin(tmp_path / "b", engine="lockstep") == "steps in lockstep on cpu"
    assert begin(tmp_path / "c", REMEDY) == "captured steps on cpu"
    assert begin(tmp_path / "d", small_run(epochs=3), small_set()) == "plain steps on cpu"


@pytest.mark.parametrize("engine", ["eager", "lockstep"])
def test_resume_with_the_same_steps_says_nothing(tmp_path, engine):
    begin(tmp_path, engine=engine)
    resume(tmp_path, engine=engine)
    whole = tmp_path / "whole"
    resume(whole, engine=engine)
    assert same_bits(parts_of(tmp_path, RUN), parts_of(whole, RUN))


def test_resume_with_other_steps_says_that_bits_differ(tmp_path):
    begin(tmp_path, engine="lockstep")
    sentence = (
        "molecules was trained by steps in lockstep on cpu up to epoch 2 and goes on by plain steps on cpu: its bits "
        "will differ from those of a run without interruption; for the same bits resume it as it was begun"
    )
    with pytest.warns(UserWarning, match=sentence):
        resume(tmp_path)
    assert parts_of(tmp_path, RUN)["steps"] == "plain steps on cpu"


def test_resume_of_captured_steps_by_plain_ones_and_back(tmp_path, captures):
    begin(tmp_path / "a", REMEDY)
    with pytest.warns(UserWarning, match="by captured steps on cpu up to epoch 2 and goes on by plain steps on cpu"):
        resume(tmp_path / "a", REMEDY, engine="eager")
    begin(tmp_path / "b", REMEDY, engine="eager")
    with pytest.warns(UserWarning, match="by plain steps on cpu up to epoch 2 and goes on by captured steps on cpu"):
        resume(tmp_path / "b", REMEDY)


def test_resume_of_steps_that_could_not_be_captured_says_nothing_of_bits(tmp_path, captures, monkeypatch):
    def fail(self, batch, output):
        raise RuntimeError("no room")

    monkeypatch.setattr(CapturedGraphs, "try_on", fail)
    with pytest.warns(UserWarning, match="no room"):
        assert begin(tmp_path, REMEDY) == "plain steps on cpu"
    with pytest.warns(UserWarning, match="no room") as caught:
        resume(tmp_path, REMEDY)
    assert len(caught) == 1


def test_resume_of_several_runs_says_it_once(tmp_path):
    runs = [replace(RUN, seed=seed) for seed in range(3)]
    for run in runs[:2]:
        begin(tmp_path, run)
    with pytest.warns(UserWarning, match=" and 1 more .* goes on by steps in lockstep on cpu") as caught:
        train_lockstep(runs, DATASET, folder=tmp_path, accelerator="cpu")
    assert len(caught) == 1


def test_refused_warning_leaves_the_checkpoint_as_it_was(tmp_path):
    begin(tmp_path, engine="lockstep")
    before = (tmp_path / RUN.key / "checkpoint.pt").read_bytes()
    with pytest.raises(UserWarning, match="bits will differ"):  # warnings are errors in tests
        resume(tmp_path)
    assert (tmp_path / RUN.key / "checkpoint.pt").read_bytes() == before


def test_checkpoint_that_does_not_name_its_steps_is_resumed(tmp_path):
    begin(tmp_path, engine="lockstep")
    path = tmp_path / RUN.key / "checkpoint.pt"
    file = torch.load(path, weights_only=True)
    del file["parts"]["steps"]
    torch.save({**file, "sha256": digest(file["parts"])}, path)
    assert len(resume(tmp_path).history["val"]) == 3
    assert parts_of(tmp_path, RUN)["steps"] == "plain steps on cpu"
