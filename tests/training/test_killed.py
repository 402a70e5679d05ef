import signal
from dataclasses import asdict

import pytest

from graphprism.training import Run
from tests.pairwise import quick
from tests.training.checkpoints import parts_of, same_bits

# Dropout and batch norm on purpose: both have state besides the weights.
RUN = Run(layers=2, width=6, epochs=6, warmup=2, norm="batch", dropout=0.3, seed=3, batch_size=16)
JOB = {"run": asdict(RUN), "graphs": 60}


@pytest.fixture(scope="module")
def undisturbed(train_in_process, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    assert train_in_process({**JOB, "folder": str(folder)}) == [0]
    return folder


# Four steps an epoch. A checkpoint is made of: sync of the new file, replace, sync of the folder, then best.pt.
MOMENTS = [
    [("step", 11)],
    [("fsync", 3)],
    [("replace", 1), ("replace", 3)],
    [("fsync", 5), ("replace", 2), ("step", 6), ("fsync", 2)],
]


# the last has a moment of every kind
@pytest.mark.parametrize(
    "moments", quick(MOMENTS, MOMENTS[-1]), ids=lambda moments: " ".join(f"{call}-{count}" for call, count in moments)
)
def test_a_killed_run_ends_with_the_same_bits(train_in_process, undisturbed, tmp_path, moments):
    job = {**JOB, "folder": str(tmp_path)}
    for moment in moments:
        assert train_in_process({**job, "die_at": moment}) == [-signal.SIGKILL]
    assert train_in_process(job) == [0]
    for name in ("checkpoint.pt", "best.pt"):
        assert same_bits(parts_of(tmp_path, RUN, name), parts_of(undisturbed, RUN, name))
    assert {path.name for path in (tmp_path / RUN.key).iterdir()} == {"checkpoint.pt", "best.pt", "lock"}
