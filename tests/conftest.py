"""What all tests share: one set of tolerances, repeatable random inputs, and a reason when a GPU is missing."""

import gc
import os
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

# One thread, here and in the processes that tests start: their tensors are small, and on a busy machine threads that
# wait for each other take ten times as long. It has to be said before torch is loaded.
os.environ["OMP_NUM_THREADS"] = "1"

import hypothesis
import pytest
import torch

from tests.pairwise import IS_SLOW, SLOW_VARIABLE

# Figures are drawn into files, also where a display exists.
os.environ["MPLBACKEND"] = "Agg"
torch.set_num_threads(1)
# A shell starts background jobs with Ctrl-C ignored, and processes that tests start and interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if TYPE_CHECKING:
    from tests.warm_python import WarmPython

hypothesis.settings.register_profile(
    "graphprism", derandomize=True, deadline=None, max_examples=30 if IS_SLOW else 15, database=None
)
hypothesis.settings.load_profile("graphprism")


@pytest.fixture(scope="session")
def tolerance() -> Callable[[torch.dtype], dict[str, float]]:
    """The package's one table, as keywords of `torch.testing.assert_close`: ``**tolerance(x.dtype)``."""
    from graphprism.testing import tolerance

    return tolerance


@pytest.fixture(scope="session")
def warm_python() -> Iterator["WarmPython"]:
    """Starts processes in which importing torch takes no time (see warm_python.py)."""
    from tests.warm_python import warm_python

    with warm_python() as python:
        yield python


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = {}
    if not torch.cuda.is_available():
        missing["gpu"] = "needs a CUDA device, and torch finds none"
    # Not `-m "not slow"` among the options of pytest: a `-m gpu` on the command line would take its place.
    if not IS_SLOW:
        missing["slow"] = f"takes minutes; {SLOW_VARIABLE}=1 or `make test-all` runs it"
    for item in items:
        for name, reason in missing.items():
            if item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish(session):
    """Collected tests stay until the end: visiting them again and again took a twelfth of the time."""
    # a first example, since Hypothesis then searches the objects that the collector knows for its random state
    hypothesis.find(hypothesis.strategies.none(), lambda _: True)
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
