import errno
import os
import resource
import signal
from contextlib import contextmanager
from dataclasses import replace

import pytest

from graphprism._files import write_whole
from graphprism.datasets import molecules
from graphprism.training import Run, train
from tests.training.checkpoints import parts_of

DATASET = molecules(60)
RUN = Run(layers=2, width=6, epochs=4, warmup=0, batch_size=16)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(
        OSError, match=r"cannot write checkpoints there \(Not a directory\); make room or name"
    ) as caught:
        train(RUN, DATASET, folder=tmp_path / "file", accelerator="cpu")
    assert str(caught.value).startswith(str(tmp_path / "file" / RUN.key))


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_that_is_read_only(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OSError, match=r"cannot write checkpoints there \(Permission denied\)"):
        train(RUN, DATASET, folder=tmp_path, accelerator="cpu")
    tmp_path.chmod(0o700)
    assert list(tmp_path.iterdir()) == []


@contextmanager
def limited_files():
    """Gives a function after which files of this process may not grow, as on a disk that is full.

    The limit ends inside the test: pytest itself may be writing to a file.
    """
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_disk_that_fills_up_leaves_the_last_checkpoint(tmp_path):
    def fill(report):
        if report.epoch == 1:
            limit(1000)

    words = r"cannot write checkpoints there \(File too large\)"
    with limited_files() as limit, pytest.raises(OSError, match=words) as caught:
        train(RUN, DATASET, folder=tmp_path, accelerator="cpu", on_epoch=fill)
    assert caught.value.errno == errno.EFBIG
    assert len(parts_of(tmp_path, RUN)["history"]["val"]) == 1
    assert {path.name for path in (tmp_path / RUN.key).iterdir()} == {"checkpoint.pt", "best.pt", "lock"}


def test_what_was_there_stays_until_the_new_file_is_whole(tmp_path):
    path = tmp_path / "a"
    write_whole(path, b"old")
    with limited_files() as limit:
        limit(1000)
        with pytest.raises(OSError, match="cannot write"):
            write_whole(path, b"new" * 1000)
        assert path.read_bytes() == b"old"
        assert [each.name for each in tmp_path.iterdir()] == ["a"]
        write_whole(path, b"new")
    assert path.read_bytes() == b"new"


def test_no_folder_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train(replace(RUN, epochs=1), DATASET, accelerator="cpu")
    assert list(tmp_path.iterdir()) == []
