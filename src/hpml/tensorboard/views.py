"""The profiler's views as a person goes through them: choose a run and a view, and look."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpml.tensorboard import browser

PLUGIN = "data/plugin/pytorch_profiler/"
# The page has no labels in its elements' code: its menus stand in this order.
MENUS = {"Runs": 0, "Views": 1, "Workers": 2}
SIDES = ("Baseline", "Experimental")  # each with menus for its run, worker and span
MENUS |= {f"{side} {at}": 3 * number + at for number, side in enumerate(SIDES) for at in range(3)}
# View: an expression that is true once it is all there
DRAWN = {
    "Overview": "document.querySelectorAll('canvas').length >= 2",
    "Operator": "document.querySelectorAll('canvas').length && document.querySelector('td')",
    "Kernel": "document.querySelectorAll('canvas').length && document.querySelector('td')",
    "Trace": "document.querySelector('iframe')?.contentDocument?.body?.innerText"
    ".includes('ProfilerStep') || document.querySelector('iframe')?.contentDocument"
    "?.querySelector('canvas')",
    "Memory": "document.querySelectorAll('canvas').length && document.querySelector('td')",
    "Module": "document.querySelectorAll('canvas').length && document.querySelector('td')",
    "Distributed": "document.querySelectorAll('canvas').length >= 2"
    " && document.querySelector('td')",
}
WAITING = "document.querySelector('[role=progressbar]')"
OPTION = "[...document.querySelectorAll('[role=option]')].find(e => e.innerText.trim() == %s)"


@dataclass
class Views:
    """The plugin's page in `page`, of the TensorBoard at `address`."""

    page: browser.Page
    address: str

    def open(self) -> None:
        """Go there, and wait until every run is read and the first view is drawn."""
        self.page.open(self.address + PLUGIN + "index.html")
        self.page.until(lambda: not self.data("runs")["loading"], "runs")
        self.page.wait(DRAWN["Overview"])

    def data(self, path: str) -> Any:
        """What the plugin answers at a path: the numbers of which a view is drawn."""
        return json.loads(
            self.page.value(f"fetch({json.dumps(path)}).then(answer => answer.text())") or "null"
        )

    def choose(self, what: str, name: str) -> None:
        """Choose `name` in one of the MENUS, called as on the page."""
        element = f"document.querySelectorAll('.MuiSelect-root')[{MENUS[what]}]"
        self.page.wait(f"!!{element}")
        if self.page.value(f"{element}.innerText.trim()") == name:
            return
        press = "new MouseEvent('mousedown', {bubbles: true, button: 0})"
        self.page.value(f"void {element}.dispatchEvent({press})")
        option = OPTION % json.dumps(name)
        self.page.wait(f"!!{option}")
        self.page.value(f"void {option}.click()")
        self.page.wait(f"!{OPTION % json.dumps(name)}")

    def show(self, run: str, view: str, worker: str | None = None) -> None:
        """Show a view of a run, and wait until it is drawn."""
        shown = {"Kernel": "GPU Kernel"}.get(view, view)
        self.choose("Runs", run)
        self.choose("Views", shown)
        if worker is not None:
            self.choose("Workers", worker)
        self._drawn(DRAWN[view])

    def show_difference(self, baseline: str, experimental: str) -> None:
        """Show how a run differs from another one, in the time of each part of their steps."""
        tab = "[...document.querySelectorAll('button')].find(e => e.innerText.trim() == 'DIFF')"
        self.page.value(f"void {tab}.click()")
        for side, run in zip(SIDES, (baseline, experimental), strict=True):
            worker = self.data(f"workers?run={run}&view=Overview")[0]
            span = self.data(f"spans?run={run}&worker={worker}")[0]
            for at, name in enumerate((run, worker, str(span))):
                self.choose(f"{side} {at}", name)
        self._drawn("document.querySelectorAll('canvas').length >= 2")

    def _drawn(self, expression: str) -> None:
        self.page.wait(f"!!({expression}) && !{WAITING}")
        time.sleep(0.5)  # menus fade


def take_pictures(address: str, chromium: str, folder: Path, width: int = 1280) -> list[Path]:
    """Write every view of every run as a PNG file, by Chromium, and the difference of two runs.

    `address` is that of TensorBoard; files are RUN-VIEW.png, in `folder`: without the menus at the
    left, at most 1000 pixels high.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []

    def write(name: str) -> None:
        height = page.value("Math.min(1000, document.querySelector('main').scrollHeight)")
        page.size(width, max(500, int(height)))
        time.sleep(0.5)
        path = folder / f"{name.replace('/', '-').lower()}.png"
        menus = page.value("document.querySelector('main').getBoundingClientRect().left")
        path.write_bytes(page.picture(left=menus))
        written.append(path)
        page.size(width, 900)

    with browser.page(chromium) as page:
        page.size(width, 900)
        views = Views(page, address)
        views.open()
        runs = views.data("runs")["runs"]
        for run in runs:
            for view in views.data(f"views?run={run}"):
                views.show(run, view)
                write(f"{run}-{view}")
        if len(runs) > 1:
            views.show_difference(*runs[:2])
            write("difference")
    return written
