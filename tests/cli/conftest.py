"""What tests of the command line share."""

import sys
from collections.abc import Iterator

import pytest

from graphprism.datasets import molecules


@pytest.fixture(scope="module")
def few_molecules() -> Iterator[None]:
    """The data set of commands that name none has 60 graphs in the place of 12,000, which take 2 s to generate."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["graphprism.datasets.load"], "molecules", lambda: molecules(60))
        yield
