import importlib
import signal
import subprocess
from pathlib import Path

import pytest

import graphprism
from graphprism._files import claim
from graphprism.ledger import claim_all
from tests.experiments.processes import start

HOLD = """
import sys
from pathlib import Path
from tests.experiments.append_lines import skip_inits
skip_inits(sys.argv[1])
from graphprism._files import claim
with claim(Path(sys.argv[2])) as mine:
    print(mine, flush=True)
    sys.stdin.read()
"""


def hold(path):
    process = start("-c", HOLD, Path(graphprism.__file__).parent, path, stdin=subprocess.PIPE)
    return process, process.stdout.readline().strip()


def test_one_at_a_time_and_free_afterwards(tmp_path):
    path = tmp_path / "locks" / "a.lock"
    with claim(path) as mine, claim(path) as twin:
        assert mine
        assert not twin
        assert path.exists(), "a failed claim must not remove the file of the one that holds it"
    assert not path.exists()
    with claim(path) as again:
        assert again


def test_claim_of_another_process_ends_with_it(tmp_path):
    path = tmp_path / "a.lock"
    process, said = hold(path)
    assert said == "True"
    with claim(path) as mine:
        assert not mine
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert path.exists(), "the killed process could not clean up"
    with claim(path) as mine:
        assert mine


def test_error_inside_gives_the_claim_back(tmp_path):
    path = tmp_path / "a.lock"
    with pytest.raises(KeyError), claim(path):
        raise KeyError
    with claim(path) as mine:
        assert mine


def test_name_that_was_given_back_meanwhile_is_not_claimed(tmp_path, monkeypatch):
    path = tmp_path / "a.lock"

    def slow_lock(file):
        path.unlink()  # the holder before gives its claim back between our opening and our locking
        return True

    monkeypatch.setattr(importlib.import_module("graphprism._files"), "try_lock", slow_lock)
    with claim(path) as mine:
        assert not mine


def test_all_that_are_free(tmp_path):
    with claim(tmp_path / "b.lock"), claim_all(tmp_path, ["a", "b", "c"]) as mine:
        assert mine == ["a", "c"]
    assert list(tmp_path.iterdir()) == []
