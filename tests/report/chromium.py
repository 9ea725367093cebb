"""Drives a headless Chromium over its debugging pipe; needs nothing but the browser."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--remote-debugging-pipe",
)
WATCHED = ("Page", "Runtime", "Log", "Network")
LIMIT = 60.0  # seconds
# the browser reads commands from descriptor 3 and answers on 4
_LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""


def find_chromium() -> str | None:
    """Return the browser's command, or None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Chromium:
    """One page of a browser. `events` holds everything that it reported."""

    def __init__(self, profile: Path) -> None:
        self.events: list[dict[str, Any]] = []
        self._last = 0
        self._rest = b""
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        command = [find_chromium() or "chromium", *FLAGS, f"--user-data-dir={profile}"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(to_read), str(to_write), *command, "about:blank"],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        target = self._page()
        self._session = None
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in WATCHED:
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session = None
        self.call("Browser.close")
        os.close(self._to)
        self._process.wait(timeout=LIMIT)
        os.close(self._from)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command and return its result."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def open(self, path: Path) -> None:
        """Open a file and wait until it is loaded."""
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())
        self.call("Runtime.evaluate", expression="1")  # scripts of the load have run by now

    def run(self, script: str) -> Any:
        """Evaluate a script (promises are awaited) and return its value."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def settle(self) -> None:
        """Wait for two frames, so that layout and observers are through."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def size(self, width: int, height: int) -> None:
        """Set the size of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    def scheme(self, name: str) -> None:
        """Prefer ``light`` or ``dark`` from now on."""
        feature = {"name": "prefers-color-scheme", "value": name}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def picture(self, path: Path, *, whole: bool = True) -> Path:
        """Write a screenshot."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))
        return path

    def pdf(self, path: Path) -> Path:
        """Print the page."""
        answer = self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)
        path.write_bytes(base64.b64decode(answer["data"]))
        return path

    @property
    def complaints(self) -> list[str]:
        """Everything that the console, the policy or an uncaught error said."""
        kept = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(one["params"]) for one in self.events if one.get("method") in kept]

    @property
    def requests(self) -> list[str]:
        """Addresses that the page asked for, itself included."""
        return [
            one["params"]["request"]["url"]
            for one in self.events
            if one.get("method") == "Network.requestWillBeSent"
        ]

    def _page(self) -> str:
        self._session = None
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            targets = self.call("Target.getTargets")["targetInfos"]
            pages = [target["targetId"] for target in targets if target["type"] == "page"]
            if pages:
                return pages[0]
        raise TimeoutError("Chromium opened no page")

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + LIMIT
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0, until - time.monotonic()))
            if not ready:
                raise TimeoutError(f"no answer from Chromium within {LIMIT:.0f} s")
            chunk = os.read(self._from, 1 << 20)
            if not chunk:
                raise ConnectionError(f"Chromium ended with code {self._process.wait()}")
            self._rest += chunk
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)
