"""A process for grids that are killed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.training.killable import host
from tests.warm_python import WarmPython


@pytest.fixture(scope="session")
def grid_in_process(warm_python: WarmPython) -> Iterator[Callable[[dict[str, Any]], int]]:
    """Trains a grid in a real process, which may be killed; gives its exit code (see forked_grid.py)."""
    with host(warm_python, Path(__file__).with_name("forked_grid.py")) as ask:
        yield ask
