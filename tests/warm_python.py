"""Interpreters that have torch loaded already: children of a process that has imported it and what comes with it.

Importing torch, torch_geometric and lightning takes 4 s of every `python` that a test starts; the fork of a process
that has them takes 10 ms. The package itself is not among them: a child finds it, and hides modules from it, as a new
interpreter would.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


class Process:
    """A child as `subprocess.Popen` would give it, with pipes of text."""

    def __init__(self, python: WarmPython, pid: int, pipes: tuple[int, int, int]) -> None:
        self.pid, self.returncode, self._python = pid, None, python
        self.stdin, self.stdout, self.stderr = (os.fdopen(end, mode) for end, mode in zip(pipes, "wrr", strict=True))

    def __enter__(self) -> Process:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None:
            self.send_signal(signal.SIGKILL)
        self.wait()

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def wait(self) -> int:
        """Closes its input and waits for its end."""
        if self.returncode is None:
            with contextlib.suppress(BrokenPipeError):
                self.stdin.close()
            self.returncode = self._python.ask({"wait": self.pid})
            for pipe in (self.stdout, self.stderr):
                pipe.close()
        return self.returncode

    def communicate(self) -> tuple[str, str]:
        """All that it still writes."""
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        said: list[str] = []
        reader = threading.Thread(target=lambda: said.append(self.stderr.read()))
        reader.start()
        out = self.stdout.read()
        reader.join()
        self.wait()
        return out, said[0]


class WarmPython:
    """Speaks to the process that forks; words are those behind ``python``: ``-c CODE``, ``-m MODULE`` or a script."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def ask(self, job: dict[str, Any], descriptors: tuple[int, ...] = ()) -> int:
        socket.send_fds(self._end, [json.dumps(job).encode()], descriptors)
        return int(json.loads(self._end.recv(1 << 16)))

    def start(self, *words: object, cwd: Path | None = None, own_stderr: bool = True, **environment: str) -> Process:
        """A child with pipes; without ``own_stderr`` it writes where this process does, and `stderr` is empty."""
        pipes = [os.pipe(), os.pipe(), os.pipe()]
        if not own_stderr:
            os.dup2(2, pipes[2][1])
        theirs = (pipes[0][0], pipes[1][1], pipes[2][1])
        here = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", **environment}
        job = {"words": [str(word) for word in words], "cwd": str(cwd or ROOT), "environment": here}
        pid = self.ask(job, theirs)
        for end in theirs:
            os.close(end)
        return Process(self, pid, (pipes[0][1], pipes[1][0], pipes[2][0]))

    def run(self, *words: object, **options: Any) -> subprocess.CompletedProcess[str]:
        """Waits for the end, as `subprocess.run` does."""
        process = self.start(*words, **options)
        out, said = process.communicate()
        return subprocess.CompletedProcess(words, process.returncode, out, said)


@contextlib.contextmanager
def warm_python() -> Iterator[WarmPython]:
    """Starts the process that forks, and ends it."""
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-W", "ignore", __file__, str(its.fileno())]
    with mine, subprocess.Popen(command, env=environment, pass_fds=[its.fileno()]) as process:
        its.close()
        try:
            yield WarmPython(mine)
        finally:
            mine.close()
            process.wait(timeout=30)


def answer(end: socket.socket) -> None:
    """Forks and waits for children until nobody asks."""
    while True:
        message, data, _, _ = end.recvmsg(1 << 18, socket.CMSG_SPACE(3 * array.array("i").itemsize))
        if not message:
            return
        job = json.loads(message)
        if "wait" in job:
            end.send(json.dumps(os.waitstatus_to_exitcode(os.waitpid(job["wait"], 0)[1])).encode())
            continue
        descriptors = array.array("i", data[0][2])
        if child := os.fork():
            for descriptor in descriptors:
                os.close(descriptor)
            end.send(json.dumps(child).encode())
            continue
        end.close()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        leave(work(job))


def leave(code: object) -> None:
    """Ends a child as an interpreter ends, but for taking apart all that was imported, which takes half a second."""
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def work(job: dict[str, Any]) -> Any:
    """What ``python WORDS`` does."""
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["cwd"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    words = job["words"]
    if words[:2] != ["-W", "ignore"] and os.environ.get("PYTHONWARNINGS") != "ignore":
        warnings.resetwarnings()
    words = words[2:] if words[:1] == ["-W"] else words
    sys.path[:0] = [path for path in os.environ["PYTHONPATH"].split(os.pathsep) if path]
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        elif words[0] == "-c":
            sys.argv = ["-c", *words[2:]]
            exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = words
            sys.path.insert(0, str(Path(words[0]).parent))
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as stop:
        return stop.code
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file
    import lightning.fabric  # noqa: F401
    import torch_geometric  # noqa: F401
    import torchmetrics.functional  # noqa: F401

    gc.freeze()  # a collection in a child would copy all pages
    answer(socket.socket(fileno=int(sys.argv[1])))
