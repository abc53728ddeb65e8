"""Chromium without a window, driven by its DevTools protocol; it reaches nothing but loopback."""

import base64
import contextlib
import json
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SWITCHES = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--no-proxy-server", "--remote-debugging-port=0", "--hide-scrollbars"),
    # Any other host is not found: what a page wants from elsewhere it does not get.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)

_MIDDLE = """element => {
    element.scrollIntoView({ block: "center" });
    const box = element.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
}"""


class Page:
    """One page. `requested` are the addresses that it asked for so far, `errors` its failures."""

    def __init__(self, port: int, limit: float) -> None:
        import websocket

        self.limit = limit
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        def address() -> str | None:
            with direct.open(f"http://127.0.0.1:{port}/json/list", timeout=limit) as answer:
                pages = [each for each in json.load(answer) if each["type"] == "page"]
            return pages[0]["webSocketDebuggerUrl"] if pages else None

        found = self.until(address, "page in the browser")
        self._socket = websocket.create_connection(
            found, timeout=limit, suppress_origin=True, http_no_proxy=["127.0.0.1"]
        )
        self._calls = 0
        self.requested: list[str] = []
        self.errors: list[str] = []
        for domain in ("Network", "Page", "Runtime"):
            self.call(f"{domain}.enable")

    def until(self, look: Callable[[], Any], what: str) -> Any:
        """What `look` gives as soon as it gives something. Raises TimeoutError."""
        deadline = time.monotonic() + self.limit
        while time.monotonic() < deadline:
            if found := look():
                return found
            time.sleep(0.1)
        raise TimeoutError(f"no {what} within {self.limit:.0f} s")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the DevTools protocol, and its result."""
        self._calls += 1
        message = {"id": self._calls, "method": method, "params": parameters}
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == self._calls:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        seen = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requested.append(seen["request"]["url"])
        elif event.get("method") == "Runtime.exceptionThrown":
            detail = seen["exceptionDetails"]
            text = detail.get("exception", {}).get("description") or detail["text"]
            self.errors.append(text)

    def open(self, address: str) -> None:
        """Go to an address."""
        self.call("Page.navigate", url=address)

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript gives, or what its promise does; None if it fails."""
        asked = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        return self.call("Runtime.evaluate", **asked)["result"].get("value")

    def wait(self, expression: str) -> Any:
        """The expression's value as soon as it is true."""
        return self.until(lambda: self.value(expression), expression)

    def mouse(self, kind: str, x: float, y: float, button: str = "left") -> None:
        """One "mousePressed", "mouseMoved" or "mouseReleased"; pixels from the page's corner."""
        count = 0 if kind == "mouseMoved" else 1
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=count)

    def click(self, x: float, y: float) -> None:
        """Press and release the left button."""
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def click_on(self, element: str) -> None:
        """Scroll to an element, given as an expression, and click in the middle of it."""
        self.click(*self.value(f"({_MIDDLE})({element})"))

    def size(self, width: int, height: int) -> None:
        """How large the window is, in pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)

    def picture(self, left: float = 0) -> bytes:
        """What the window shows from `left` pixels on, as PNG."""
        width, height = self.value("[window.innerWidth, window.innerHeight]")
        part = {"x": left, "y": 0, "width": width - left, "height": height, "scale": 1}
        return base64.b64decode(self.call("Page.captureScreenshot", clip=part)["data"])


@contextlib.contextmanager
def page(chromium: str, limit: float = 120.0) -> Iterator[Page]:
    """A page in a browser of its own, which is ended with all that it started."""
    with tempfile.TemporaryDirectory(prefix="hpml-chromium-") as folder:
        process = subprocess.Popen(
            [chromium, *SWITCHES, f"--user-data-dir={folder}/profile", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            active = Path(folder, "profile", "DevToolsActivePort")
            deadline = time.monotonic() + limit
            while not (active.is_file() and active.read_text().split()):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise TimeoutError(f"{chromium} did not start")
                time.sleep(0.05)
            yield Page(int(active.read_text().split()[0]), limit)
        finally:
            _end(process)


def _end(process: subprocess.Popen) -> None:
    import psutil

    family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    for each in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    psutil.wait_procs(family, timeout=10)
