import os
import resource
import signal
import warnings
from dataclasses import replace
from pathlib import Path

import pandas
import pytest

import graphprism
from graphprism.experiments import Ledger
from graphprism.ledger import RUN_TYPES
from graphprism.results import field_types
from graphprism.training import Run
from tests.experiments.processes import ROOT, run, start
from tests.experiments.results_zoo import diverged, make_result

WRITER = (ROOT / "tests" / "experiments" / "append_lines.py", Path(graphprism.__file__).parent)


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "new" / "ledger.jsonl")


def test_reads_what_was_appended(ledger):
    first, second = make_result(Run(seed=0)), make_result(Run(seed=1), loss=(float("nan"), 1.0, 2.0))
    for result in (first, second):
        ledger.append(result)
    assert ledger.read() == [first, replace(second, history={**second.history, **_losses(None, 1.0, 2.0)})]
    assert ledger.find(first.key) == first
    assert ledger.find("nix") is None


def _losses(*values):
    return {"train_loss": list(values), "train": list(values)}


def test_no_file_is_no_result(ledger):
    assert ledger.read() == []
    assert ledger.find("a") is None
    assert not ledger.path.parent.exists()


def test_a_finished_line_counts_before_a_diverged_one_and_a_later_one_before_an_earlier(ledger):
    one = Run()
    old, new = make_result(one, seconds=1.0), make_result(one, seconds=2.0)
    ledger.append(diverged(one))
    assert ledger.find(one.key).status == "diverged"
    for result in (old, new, diverged(one)):
        ledger.append(result)
    assert ledger.find(one.key) == new
    ledger.append(make_result(Run(seed=7)))
    assert ledger.latest() == {one.key: new, Run(seed=7).key: make_result(Run(seed=7))}


def test_fresh_ledger_ignores_what_was_there(ledger):
    one = Run()
    ledger.append(make_result(one))
    fresh = Ledger(ledger.path, fresh=True)
    assert (fresh.read(), fresh.latest(), fresh.find(one.key)) == ([], {}, None)
    fresh.append(make_result(one, seconds=2.0))
    assert fresh.find(one.key).seconds == 2.0
    assert len(ledger.read()) == 2


def test_key_inside_another_line_is_not_found(ledger):
    ledger.append(make_result(Run(), extra={"see": "abc"}))
    assert ledger.find("abc") is None


def test_pandas_reads_it(ledger):
    for seed in range(3):
        ledger.append(make_result(Run(seed=seed), seconds=float(seed)))
    frame = pandas.read_json(ledger.path, lines=True)
    assert list(frame["seconds"]) == [0, 1, 2]
    assert frame["run"][2]["seed"] == 2


@pytest.mark.parametrize(
    "damage", [b'{"key": "a"', b'{"key": "a"}', b"[1, 2]", b"\xff\xfe", b"null", b'{"key": 1}', b"not json"]
)
def test_damaged_line_is_skipped_with_file_and_number(ledger, damage):
    good = make_result()
    ledger.append(good)
    with ledger.path.open("ab") as file:
        file.write(damage + b"\n")
    ledger.append(replace(good, key="after"))
    with pytest.warns(UserWarning, match=r"ledger\.jsonl, line 2: skipped"):
        assert [result.key for result in ledger.read()] == [good.key, "after"]


def test_torn_last_line_does_not_spoil_the_next(ledger):
    good = make_result()
    ledger.append(good)
    with ledger.path.open("ab") as file:
        file.write(good.to_json().encode()[:100])
    ledger.append(replace(good, key="after"))
    with pytest.warns(UserWarning, match="line 2"):
        assert [result.key for result in ledger.read()] == [good.key, "after"]


@pytest.mark.parametrize("locks", ["", "without-locks"])
def test_many_writers_at_once(ledger, locks):
    names = [str(name) for name in range(6)]
    writers = [start(*WRITER, ledger.path, name, 20, locks) for name in names]
    ends = [(writer.communicate(timeout=120)[1], writer.returncode) for writer in writers]
    assert ends == [("", 0)] * 6
    keys = [result.key for result in ledger.read()]  # a damaged line would be a warning, which is an error here
    assert len(keys) == 120
    for name in names:
        assert [key for key in keys if key.startswith(f"{name}-")] == [f"{name}-{number}" for number in range(20)]


def test_killed_writer_leaves_a_ledger_that_goes_on(ledger):
    writer = start(*WRITER, ledger.path, "killed", 100_000)
    for _ in range(5):
        writer.stdout.readline()
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    ledger.append(make_result())
    with ledger.path.open("rb") as file:
        whole = [line for line in file if line.endswith(b"}\n")]
    assert len(whole) >= 6
    keys = _read_quietly(ledger)
    assert keys[:5] == [f"killed-{number}" for number in range(5)]
    assert keys[-1] == make_result().key


def _read_quietly(ledger):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [result.key for result in ledger.read()]


def test_what_does_not_fit_on_the_disk_leaves_no_trace(ledger):
    ledger.append(make_result())
    before = ledger.path.read_bytes()
    limit = len(before) + 40  # the disk takes a part of the next line

    def small_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    writer = run(*WRITER, ledger.path, "large", 1, preexec_fn=small_disk)
    assert "could not be added to the ledger: File too large" in writer.stderr_text
    assert ledger.path.read_bytes() == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, a disk that is always full")
def test_full_disk_is_one_sentence(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"ledger\.jsonl: a result could not be added to the ledger: No space left"):
        Ledger(path).append(make_result())


def test_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="could not be added to the ledger: Not a directory"):
        Ledger(tmp_path / "file" / "deep" / "ledger.jsonl").append(make_result())


def test_read_only_folder_is_one_sentence_and_stays_readable(ledger):
    ledger.append(make_result())
    ledger.path.chmod(0o400)
    ledger.path.parent.chmod(0o500)
    try:
        if os.access(ledger.path, os.W_OK):
            pytest.skip("this user, such as root, may write into a folder that is read-only")
        with pytest.raises(OSError, match="could not be added to the ledger: Permission denied"):
            ledger.append(make_result())
        assert len(ledger.read()) == 1
    finally:
        ledger.path.parent.chmod(0o700)


def test_types_of_fields_are_those_of_run():
    assert field_types(Run) == RUN_TYPES
