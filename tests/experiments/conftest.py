"""What tests of experiments share."""

import pytest

from graphprism.experiments.tables.figure_2 import one_thread


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """A few molecules only wait for a second thread, and where the machine is busy for long."""
    with one_thread():
        yield
