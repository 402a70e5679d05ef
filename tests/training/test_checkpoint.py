from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.training import CheckpointError, Run, load_best, session, train
from tests.training.checkpoints import parts_of, same_bits

DATASET = molecules(60)
RUN = Run(layers=2, width=6, epochs=3, warmup=0, batch_size=16)


@pytest.fixture
def folder(tmp_path):
    train(RUN, DATASET, folder=tmp_path, accelerator="cpu")
    return tmp_path


def rewrite(path, **fields):
    file = torch.load(path, weights_only=True)
    torch.save({**file, **fields}, path)


def again(folder, run=RUN, dataset=DATASET):
    return train(run, dataset, folder=folder, accelerator="cpu")


def test_a_finished_run_is_not_trained_again(folder):
    before = (folder / RUN.key / "checkpoint.pt").read_bytes()
    first = again(folder)
    assert again(folder).history == first.history
    assert (folder / RUN.key / "checkpoint.pt").read_bytes() == before


def test_the_best_network_is_given_back(folder):
    history = again(folder).history
    network = load_best(folder, RUN, DATASET)
    batch = DATASET.batch(DATASET.subset("val"))
    with torch.no_grad():
        from graphprism.transforms import SplitEdges

        output = network(batch.x, batch.edge_index, SplitEdges("degree")(batch).edge_type, batch=batch.batch)
    assert not network.training
    assert (output - batch.y).abs().mean().item() == pytest.approx(min(history["val"]), rel=1e-5)


def test_a_network_that_was_never_trained(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"best.pt: there is no such file; `train` writes it"):
        load_best(tmp_path, RUN, DATASET)


@pytest.mark.parametrize("place", [0.0, 0.02, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_checkpoint_is_refused_in_one_sentence(folder, place, damage):
    path = folder / RUN.key / "checkpoint.pt"
    content = bytearray(path.read_bytes())
    where = int(place * len(content))
    if damage == "cut":
        content = content[:where]
    else:
        # more than the 64 bytes to which torch pads a tensor, and which hold nothing
        content[where : where + 200] = bytes(255 - byte for byte in content[where : where + 200])
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"checkpoint.pt: .*; remove .* to start this run anew") as caught:
        again(folder)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == content


def test_a_checkpoint_of_something_else_is_refused(folder):
    path = folder / RUN.key / "checkpoint.pt"
    with pytest.raises(CheckpointError, match="belongs to other data than this molecules"):
        again(folder, dataset=molecules(61))
    with pytest.raises(CheckpointError, match="belongs to other data"):
        load_best(folder, RUN, molecules(61))
    rewrite(path, run={**RUN.to_dict(), "seed": 1})
    with pytest.raises(CheckpointError, match="belongs to another run than mrs-gcn by degree, 2 layers"):
        again(folder)
    rewrite(path, format="graphprism checkpoint 99")
    with pytest.raises(CheckpointError, match=r"must be of the format 'graphprism checkpoint 2', got .* 99'"):
        again(folder)


def test_one_changed_number_is_found(folder):
    path = folder / RUN.key / "checkpoint.pt"
    parts = torch.load(path, weights_only=True)["parts"]
    parts["state"]["model"]["head.bias"] += 1e-6
    rewrite(path, parts=parts)
    with pytest.raises(CheckpointError, match="the file is damaged"):
        again(folder)


def test_nothing_in_a_checkpoint_is_executed(folder):
    class Command:
        def __reduce__(self):
            return (folder.joinpath("executed").touch, ())

    path = folder / RUN.key / "checkpoint.pt"
    torch.save({"format": Command()}, path)
    with pytest.raises(CheckpointError, match="the file is damaged or not a checkpoint"):
        again(folder)
    assert not (folder / "executed").exists()


def test_a_best_file_that_is_lost_or_behind_is_mended(folder):
    best = folder / RUN.key / "best.pt"
    parts = parts_of(folder, RUN, "best.pt")
    for damage in (best.unlink, lambda: best.write_bytes(b"old")):
        damage()
        again(folder)
        assert same_bits(parts_of(folder, RUN, "best.pt"), parts)


@pytest.mark.parametrize("where", ["epoch", "step"])
def test_ctrl_c_leaves_the_last_finished_epoch(tmp_path, monkeypatch, where):
    run, steps = replace(RUN, epochs=5), [0]
    # after the first epoch so long a wait that only Ctrl-C makes it write
    monkeypatch.setattr(session, "_LONGEST", 1e9)
    monkeypatch.setattr(session, "_SHARE", 1e12)
    real = torch.optim.AdamW.step

    def step(self, *arguments):
        steps[0] += 1
        if steps[0] == 4 * 3 + 2:
            raise KeyboardInterrupt
        return real(self, *arguments)

    def on_epoch(report):
        if report.epoch == 3:
            raise KeyboardInterrupt

    if where == "step":
        monkeypatch.setattr(torch.optim.AdamW, "step", step)
    with pytest.raises(KeyboardInterrupt):
        train(run, DATASET, folder=tmp_path, accelerator="cpu", on_epoch=on_epoch if where == "epoch" else None)
    assert len(parts_of(tmp_path, run)["history"]["val"]) == 3
    monkeypatch.undo()
    again(tmp_path, run)
    again(tmp_path / "whole", run)
    assert same_bits(parts_of(tmp_path, run), parts_of(tmp_path / "whole", run))


def test_two_at_once_do_not_write_into_each_other(tmp_path):
    said = []

    def second(report):
        with pytest.raises(ValueError, match="another process is training this run there"):
            again(tmp_path)
        said.append(report.epoch)

    train(RUN, DATASET, folder=tmp_path, accelerator="cpu", on_epoch=second)
    assert said == [1, 2, 3]
    again(tmp_path)
