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


def problem(call, fragment, names):
    """What is wrong with the error of a call; nothing where it is right."""
    try:
        message = clear_error(call, names)
    except (AssertionError, pytest.fail.Exception) as error:
        return f"{call}: {error}"
    told = fragment in message and ("must" in message or "needs" in message) and "got" in message
    return None if told else f"{call}: {fragment!r} with what must hold and what came, got {message!r}"


LINES: dict[str, list[tuple[str, str]]] = {}
for _call, _fragment in lines():
    LINES.setdefault(_call.partition("(")[0], []).append((_call, _fragment))


# one test for each name that is called: a test for each of 1,300 lines would take longer than the calls
@pytest.mark.parametrize("subject", LINES)
def test_bad_input_is_named(subject, names):
    problems = [found for call, fragment in LINES[subject] if (found := problem(call, fragment, names))]
    assert not problems, "\n".join(problems)


def test_table_has_no_line_twice():
    calls = [call for call, _ in lines()]
    assert len(calls) == len(set(calls)) >= 300
