"""A release in JupyterLab, in a real browser: a page that renders, and a kernel that runs cells."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import websocket

LIMIT = 300  # seconds for any one thing to come about; on an idle machine each takes a few

NOTEBOOK = "jupyterapp.shell.currentWidget"
KERNEL = f"{NOTEBOOK}.sessionContext.session?.kernel?.status == 'idle'"
CHOOSE = f"""(async () => {{
    const notebook = {NOTEBOOK}.content;
    notebook.activeCellIndex = notebook.widgets.findIndex(
        cell => cell.model.type == "code" && cell.model.sharedModel.source.includes(%s));
    await notebook.scrollToCell(notebook.activeCell);
}})()"""
RUN = f"""(async () => {{
    await jupyterapp.commands.execute("notebook:run-cell");
    const {{ model, node }} = {NOTEBOOK}.content.activeCell;
    return {{
        count: model.executionCount,
        kinds: model.outputs.toJSON().map(output => output.output_type),
        text: node.querySelector(".jp-Cell-outputArea").textContent,
    }};
}})()"""
MIDDLE = """(element => {
    element.scrollIntoView({ block: "center" });
    const box = element.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
})(%s)"""

OUTPUT = f"{NOTEBOOK}.content.activeCell.node.querySelector('.jp-Cell-outputArea')"
KEPT = f"{OUTPUT}.querySelectorAll('img[src^=\"data:image/png\"]').length"
BUTTON = f"[...{OUTPUT}.querySelectorAll('button')].find(each => each.textContent == '%s')"
FILTER = f"getComputedStyle({OUTPUT}.querySelector('img')).filter"
OPEN = "void jupyterapp.commands.execute('docmanager:open', { path: %s, factory: 'Editor' })"
BEFORE_NAMES = """[...document.querySelectorAll("#jp-main-dock-panel .lm-TabBar-tabLabel")].map(
    label => getComputedStyle(label, "::before").content)"""
STEP = f"""(async () => {{
    const picture = {OUTPUT}.querySelector("img.widget-image");
    if (!picture?.naturalWidth) return null;
    const bytes = await (await fetch(picture.src)).arrayBuffer();
    return [{OUTPUT}.querySelector(".widget-html-content").textContent, btoa(
        String.fromCharCode(...new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))))];
}})()"""


def until(look: Callable[[], Any], what: str) -> Any:
    """What `look` gives as soon as it gives something."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.1)
    pytest.fail(f"no {what}")


@contextlib.contextmanager
def running(
    command: list[str], log: Path, end: signal.Signals = signal.SIGINT, **options: Any
) -> Iterator[subprocess.Popen]:
    """A program and its log, sent `end` in the end; nothing that it started outlives this."""
    with log.open("w") as written:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=written, stderr=written,
            start_new_session=True, **options,
        )  # fmt: skip
    family = [psutil.Process(process.pid)]
    try:
        yield process
    finally:
        family += family[0].children(recursive=True)  # kernels are in groups of their own
        process.send_signal(end)
        _, alive = psutil.wait_procs(family, timeout=60)
        for each in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()


class Page:
    """A page in a browser, by Chromium's DevTools protocol."""

    def __init__(self, port: int):
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        def found() -> list[str]:
            with direct.open(f"http://127.0.0.1:{port}/json/list", timeout=LIMIT) as answer:
                targets = json.load(answer)
            return [t["webSocketDebuggerUrl"] for t in targets if t["type"] == "page"]

        address = until(found, "page in the browser")[0]
        self.socket = websocket.create_connection(
            address, timeout=LIMIT, suppress_origin=True, http_no_proxy=["127.0.0.1"]
        )
        self.calls = 0

    def _call(self, method: str, **asked: Any) -> dict[str, Any]:
        self.calls += 1
        self.socket.send(json.dumps({"id": self.calls, "method": method, "params": asked}))
        while (answer := json.loads(self.socket.recv())).get("id") != self.calls:
            pass
        return answer["result"]

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript gives, or what its promise does; None if it fails."""
        asked = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        return self._call("Runtime.evaluate", **asked)["result"].get("value")

    def click(self, element: str) -> None:
        """Press and release the mouse in the middle of an element."""
        x, y = self.value(MIDDLE % element)
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


@pytest.fixture
def page(request, released, needs, tmp_path) -> Iterator[Page]:
    """A lecture of the release in its own JupyterLab, with its kernel."""
    chromium = needs("chromium")
    command = [sys.executable, "-m", "hpml", "lab", "--", "--no-browser", "--port", "0"]
    command.append("--LabApp.expose_app_in_browser=True")
    environment = {
        **os.environ,
        "PYTHONPATH": str(released / "src"),
        "HPML_HOME": str(tmp_path / "home"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "JUPYTER_DATA_DIR": str(tmp_path / "data"),
    }
    environment.pop("HPML_DATA", None)
    switches = [
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
        *("--disable-sync", "--no-proxy-server", "--window-size=1200,1600"),
        *("--remote-debugging-port=0", f"--user-data-dir={tmp_path / 'profile'}"),
    ]
    log = tmp_path / "lab.log"
    with running(command, log, env=environment, cwd=tmp_path):
        pattern = (
            r"(http://127\.0\.0\.1:\d+)/lab/tree/notebooks/00_your_machine\.ipynb\?(token=\w+)"
        )
        base, token = until(lambda: re.search(pattern, log.read_text()), "JupyterLab").groups()
        address = f"{base}/lab/tree/notebooks/{request.param}.ipynb?{token}"
        # Asked to end, it would ask in turn whether the notebook may be left unsaved, and wait.
        browser = [chromium, *switches, address]
        with running(browser, tmp_path / "chromium.log", signal.SIGKILL):
            active = tmp_path / "profile" / "DevToolsActivePort"
            lines = until(lambda: active.is_file() and active.read_text().split(), "browser")
            page = Page(int(lines[0]))
            until(lambda: page.value(KERNEL), "kernel")
            yield page


def run(page: Page, cell: str) -> dict[str, Any]:
    """Run the first cell with that text, which becomes the active one."""
    page.value(CHOOSE % json.dumps(cell))
    return page.value(RUN)


@pytest.mark.parametrize("page", ["00_your_machine"], indirect=True)
def test_its_first_lecture_renders_and_its_cells_run(page, released):
    title = "document.querySelector('.jp-NotebookPanel .jp-MarkdownOutput h1')?.textContent"
    assert until(lambda: page.value(title), "title of the notebook").startswith("00 Your machine")
    assert page.value("document.title").startswith("00_your_m")
    cells = page.value(f"{NOTEBOOK}.content.widgets.length")
    assert cells == len(
        json.loads((released / "notebooks/00_your_machine.ipynb").read_text())["cells"]
    )
    assert page.value("document.querySelectorAll('.jp-NotebookPanel .jp-Cell').length") > 3
    loaded = run(page, "%load_ext hpml")
    assert (loaded["count"], loaded["kinds"]) == (1, []), loaded
    ranks = run(page, "%%ranks 2")
    assert ranks["count"] == 2
    assert "error" not in ranks["kinds"], ranks["text"]
    assert "[1] I am one of 2, and the sum is 3" in ranks["text"]

    page.value(OPEN % json.dumps("exercises/00_your_machine.py"))  # no second kernel
    names = ["none", '"exercises · "']  # what stands before the names of the two tabs
    until(lambda: page.value(BEFORE_NAMES) == names, "two tabs that can be told apart")


@pytest.mark.parametrize("page", ["01_parallel_sgd"], indirect=True)
def test_its_stepper_shows_another_step_with_its_sentence_at_a_click(page):
    cell = "step_through("
    assert "error" not in (ran := run(page, cell))["kinds"], ran["text"]
    assert page.value(KEPT) == 1

    def at(step: int) -> list[str] | None:
        """The sentence and a digest of the picture, once the sentence is that of the step."""
        seen = page.value(STEP)
        return seen if seen and seen[0].startswith(f"Step {step}: ") else None

    first = until(lambda: at(1), "step 1")
    page.click(BUTTON % "next")
    until(lambda: (seen := at(2)) and seen[1] != first[1], "step 2, with another picture")
    page.click(BUTTON % "previous")
    until(lambda: at(1) == first, "step 1 again, with its picture")

    page.value("jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    until(lambda: (page.value(FILTER) or "").startswith("invert"), "drawing on a dark page")
