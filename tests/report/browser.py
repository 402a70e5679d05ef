"""A real browser for tests, spoken to over a pipe: the DevTools protocol with the standard library alone."""

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
PATIENCE = 60.0


def find_browser() -> str | None:
    """The program, where there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One process; every page is a tab of its own.

    Args:
        program: What `find_browser` found.
        folder: New and empty, for its profile and for what it says.
    """

    def __init__(self, program: str, folder: Path) -> None:
        reads, self._to = _high_pipe()
        self._from, writes = _high_pipe()
        said = os.open(folder / "said.txt", os.O_CREAT | os.O_WRONLY)
        # The browser reads from 3 and writes to 4; posix_spawn, because a fork of a process with threads may hang.
        moves = [(os.POSIX_SPAWN_DUP2, *pair) for pair in ((reads, 3), (writes, 4), (said, 1), (said, 2))]
        arguments = [program, *OPTIONS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        self.pid = os.posix_spawn(program, arguments, os.environ, file_actions=moves)
        for end in (reads, writes, said):
            os.close(end)
        self._number, self._rest = 0, b""
        self._events: dict[str, list[dict[str, Any]]] = {}

    def call(self, method: str, session: str | None = None, **values: Any) -> dict[str, Any]:
        """Asks for something and waits for the answer; what happens meanwhile is kept by session."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": values}
        os.write(self._to, json.dumps({**asked, "sessionId": session} if session else asked).encode() + b"\0")
        while (message := self._next()).get("id") != self._number:
            self._events.setdefault(message.get("sessionId", ""), []).append(message)
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        return message["result"]

    def events(self, session: str) -> list[dict[str, Any]]:
        """All that has happened in a tab."""
        return self._events.get(session, [])

    @contextlib.contextmanager
    def page(self, address: str, width: int = 1200, height: int = 900, scheme: str = "light") -> Iterator["Page"]:
        """Opens a tab of a size and a colour scheme, and loads a page in it."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        page = Page(self, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        try:
            page.load(address, width, height, scheme)
            yield page
        finally:
            self.call("Target.closeTarget", targetId=target)

    def close(self) -> None:
        """Ends it, by force where it does not listen."""
        with contextlib.suppress(OSError, RuntimeError, TimeoutError, EOFError):
            self.call("Browser.close")
        for end in (self._to, self._from):
            os.close(end)
        deadline = time.monotonic() + 10
        while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                return
            time.sleep(0.02)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self._from], [], [], PATIENCE)[0]:
                raise TimeoutError(f"the browser was silent for {PATIENCE:.0f} s")
            if not (more := os.read(self._from, 1 << 20)):
                raise EOFError("the browser has ended")
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        return json.loads(line)


class Page:
    """A tab."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session

    def load(self, address: str, width: int, height: int, scheme: str) -> None:
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=address)
        # Two frames after loading, sizes are known and what depends on them is drawn.
        frames = "requestAnimationFrame(() => requestAnimationFrame(() => done(true)))"
        start = f"document.readyState === 'complete' ? {frames} : addEventListener('load', () => {frames})"
        self.run(f"new Promise((done) => {start})")

    def call(self, method: str, **values: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **values)

    def run(self, script: str) -> Any:
        """The value of a script; an exception in it is one here."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        """A real click with the mouse in the middle of an element."""
        x, y = self.middle(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def hover(self, selector: str) -> None:
        """The mouse over the middle of an element."""
        x, y = self.middle(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def type(self, selector: str, text: str) -> None:
        """Letters into a field, as from a keyboard."""
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)

    def middle(self, selector: str) -> tuple[float, float]:
        found = f"const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
        box = self.run(
            f"(() => {{ {found} const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; }})()"
        )
        return box[0] + box[2] / 2, box[1] + box[3] / 2

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, and exceptions that nobody caught."""
        kinds = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        return [json.dumps(event["params"]) for event in self._events() if event["method"] in kinds]

    def requests(self) -> list[str]:
        """Addresses that the page has asked for."""
        asked = (event for event in self._events() if event["method"] == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in asked]

    def _events(self) -> list[dict[str, Any]]:
        return self._browser.events(self._session)


def _high_pipe() -> tuple[int, int]:
    """A pipe with numbers that moving its ends to 3 and 4 cannot hit; not for other children."""
    low = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in low)
    for end in low:
        os.close(end)
    return high[0], high[1]
