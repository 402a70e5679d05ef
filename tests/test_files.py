"""Atomic writes, locks and claims, between processes and on systems without `fcntl`."""

import errno
import importlib
import os
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
