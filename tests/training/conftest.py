"""Processes for the tests of training."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.training.killable import host
from tests.warm_python import WarmPython


@pytest.fixture(scope="session")
def train_in_process(warm_python: WarmPython) -> Iterator[Callable[[dict[str, Any]], list[int]]]:
    """Trains in one or several real processes, which may be killed; gives their exit codes (see forked.py)."""
    with host(warm_python, Path(__file__).with_name("forked.py")) as ask:
        yield ask
