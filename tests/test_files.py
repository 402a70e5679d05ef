"""Atomic writes, locks and claims, between processes and on systems without `fcntl`."""

import errno
import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from graphprism._files import lock, sha256, try_lock, write_whole

files = importlib.import_module("graphprism._files")


def test_write_whole_removes_temporary_files_of_dead_writers(tmp_path):
    for name in (".a.json.77.tmp", ".a.json.tmp", ".b.json.77.tmp", ".a.json.bak"):
        (tmp_path / name).write_bytes(b"half")
    write_whole(tmp_path / "a.json", "{}")
    left = {".a.json.tmp", ".b.json.77.tmp", ".a.json.bak", "a.json"}
    assert {path.name for path in tmp_path.iterdir()} == left


def test_write_whole_leaves_temporary_files_of_living_writers(tmp_path):
    living = tmp_path / ".a.json.77.tmp"
    with living.open("xb") as file:
        lock(file)
        write_whole(tmp_path / "a.json", "{}")
        assert living.exists()
    write_whole(tmp_path / "a.json", "{}")
    assert not living.exists()


def test_write_whole_removes_nothing_without_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_fcntl", None)
    monkeypatch.setattr(files, "_msvcrt", None)
    (tmp_path / ".a.json.77.tmp").write_bytes(b"may be of a living writer")
    write_whole(tmp_path / "a.json", "{}")
    assert (tmp_path / ".a.json.77.tmp").exists()
    assert (tmp_path / "a.json").read_bytes() == b"{}"


def test_write_whole_of_two_writers_in_one_process(tmp_path):
    path = tmp_path / "a"
    with files._temporary(path) as first, files._temporary(path) as second:
        assert first.name != second.name
    assert list(tmp_path.iterdir()) == []


def test_write_whole_takes_another_name_if_its_temporary_file_was_removed(tmp_path, monkeypatch):
    seen = []

    def removed_once(path, descriptor):
        seen.append(path)
        return len(seen) > 1

    monkeypatch.setattr(files, "_is_still", removed_once)
    write_whole(tmp_path / "a", "text")
    assert len(set(seen)) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_write_whole_names_what_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"file/new: cannot write tables there \(Not a directory\); make room") as caught:
        write_whole(tmp_path / "file" / "new" / "a", "text", "tables")
    assert caught.value.errno == errno.ENOTDIR


def windows_locks():
    """The part of `msvcrt` that is used, for one process: locked files by their names."""
    held = {}

    def locking(descriptor, mode, count):
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if held.setdefault(name, descriptor) != descriptor:
            raise PermissionError(errno.EACCES, "locked")

    return SimpleNamespace(LK_NBLCK=2, locking=locking, held=held)


def test_try_lock_without_fcntl(tmp_path, monkeypatch):
    system = windows_locks()
    monkeypatch.setattr(files, "_fcntl", None)
    monkeypatch.setattr(files, "_msvcrt", system)
    with (tmp_path / "a").open("ab+") as first, (tmp_path / "a").open("ab+") as second:
        first.write(b"12")
        assert try_lock(first)
        assert first.tell() == 2
        assert not try_lock(second)
        monkeypatch.setattr(files.time, "sleep", lambda seconds: system.held.clear())
        lock(second)
    assert (tmp_path / "a").read_bytes() == b"12"


def test_sha256_of_text_is_that_of_its_bytes():
    assert sha256("é") == sha256("é".encode())


WRITER = """
import sys, time
from pathlib import Path
from types import ModuleType
package = ModuleType("graphprism")
package.__path__ = [sys.argv[1]]
sys.modules["graphprism"] = package  # without what its __init__ imports
from graphprism._files import whole_file
with whole_file(Path(sys.argv[2])) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(600)
"""


def _start_writer(path):
    command = [sys.executable, "-c", WRITER, str(Path(files.__file__).parent), str(path)]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert writer.stdout.readline() == "writing\n"
    return writer


def test_write_whole_removes_the_temporary_file_of_a_killed_writer_and_no_other(tmp_path):
    path = tmp_path / "a.json"
    write_whole(path, "old")
    with _start_writer(path) as killed, _start_writer(path) as living:
        both = set(tmp_path.glob(".a.json.*.tmp"))
        assert len(both) == 2
        killed.send_signal(signal.SIGKILL)
        killed.wait(60)
        assert set(tmp_path.glob(".a.json.*.tmp")) == both
        assert path.read_bytes() == b"old"
        write_whole(path, "new")
        (left,) = tmp_path.glob(".a.json.*.tmp")
        assert f".{living.pid}-" in left.name
        assert left.read_bytes() == b"half"
        living.send_signal(signal.SIGKILL)
        living.wait(60)
    write_whole(path, "newer")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("a.json", b"newer")]
