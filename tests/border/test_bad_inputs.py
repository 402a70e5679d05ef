"""Every bad input ends in one sentence of this package: what must hold, and what came."""

import traceback

import pytest

import graphprism
from tests.border.namespace import namespace
from tests.border.table import lines

PACKAGE = graphprism.__path__[0]


@pytest.fixture(scope="module")
def names():
    return namespace()


def clear_error(call, names):
    """The message of the error, which must be raised by this package and be about the input."""
    with pytest.raises((ValueError, TypeError, IndexError)) as caught:
        eval(call, dict(names))
    raised_in = traceback.extract_tb(caught.tb)[-1].filename
    assert raised_in.startswith(PACKAGE), f"raised in {raised_in}: {caught.value}"
    return str(caught.value)


@pytest.mark.parametrize(("call", "fragment"), [pytest.param(*line, id=line[0]) for line in lines()])
def test_bad_input_is_named(call, fragment, names):
    message = clear_error(call, names)
    assert fragment in message
    assert "must" in message or "needs" in message
    assert "got" in message


def test_table_has_no_line_twice():
    calls = [call for call, _ in lines()]
    assert len(calls) == len(set(calls)) >= 300
