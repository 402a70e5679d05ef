"""What all tests share: one set of tolerances, repeatable random inputs, and a reason when a GPU is missing."""

import os
import signal
from collections.abc import Callable

# One thread, here and in the processes that tests start: their tensors are small, and on a busy machine threads that
# wait for each other take ten times as long. It has to be said before torch is loaded.
os.environ["OMP_NUM_THREADS"] = "1"

import hypothesis
import pytest
import torch

# Figures are drawn into files, also where a display exists.
os.environ["MPLBACKEND"] = "Agg"
torch.set_num_threads(1)
# A shell starts background jobs with Ctrl-C ignored, and processes that tests start and interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile("graphprism", derandomize=True, deadline=None, max_examples=30, database=None)
hypothesis.settings.load_profile("graphprism")


@pytest.fixture(scope="session")
def tolerance() -> Callable[[torch.dtype], dict[str, float]]:
    """The package's one table, as keywords of `torch.testing.assert_close`: ``**tolerance(x.dtype)``."""
    from graphprism.testing import tolerance

    return tolerance


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA device, and torch finds none")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(skip)
