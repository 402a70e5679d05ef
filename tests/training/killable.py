"""Work in children of a process that has imported everything once, so that they can be killed and cost little.

That process never runs a backward pass itself, as torch forbids those in children of a process that did.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import graphprism._files
from tests.warm_python import WarmPython


@contextmanager
def host(python: WarmPython, script: Path) -> Iterator[Callable[[dict[str, Any]], Any]]:
    """Starts a script that says when it is ready and then answers jobs, one a line; gives what asks it."""
    with python.start("-W", "ignore", script, own_stderr=False) as process:
        assert process.stdout.readline(), "the process could not be started"

        def ask(job: dict[str, Any]) -> Any:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask


def answer(work: Callable[[dict[str, Any]], Any]) -> None:
    """The loop of such a script."""
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(work(json.loads(line))), flush=True)


def fork(work: Callable[[], None], name: str) -> int:
    """Does work in a child, and says what went wrong there; the number of the child."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException as error:
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def exit_code(child: int) -> int:
    """Waits for a child."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at(call: str, count: int, **more: tuple[Any, str]) -> None:
    """Kills this process when it calls a function for the ``count``-th time, one of ``more`` or of writing files."""
    writing = {"fsync": (graphprism._files.os, "fsync"), "replace": (Path, "replace")}
    owner, name = {**writing, **more}[call]
    function, calls = getattr(owner, name), [0]

    def counted(*arguments: Any, **keywords: Any) -> Any:
        calls[0] += 1
        if calls[0] == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **keywords)

    setattr(owner, name, counted)
