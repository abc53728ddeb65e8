"""A release in JupyterLab, in a real browser: a page that renders, and a kernel that runs cells."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hpml.tensorboard import browser

from ..jupyter_lab import LIMIT, lab

pytestmark = pytest.mark.measures  # a browser

NOTEBOOK = "jupyterapp.shell.currentWidget"
KERNEL = f"{NOTEBOOK}?.sessionContext.session?.kernel?.status == 'idle'"
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


@pytest.fixture
def page(request, released, needs, tmp_path) -> Iterator[browser.Page]:
    """A lecture of the release in its own JupyterLab, with its kernel."""
    chromium = needs("chromium")
    paths = {"PYTHONPATH": str(released / "src"), "HPML_HOME": str(tmp_path / "home")}
    with lab(tmp_path, **paths) as started, browser.page(chromium, LIMIT) as page:
        assert started.first == "notebooks/00_your_machine.ipynb"
        page.size(1200, 1600)
        page.call("Emulation.setFocusEmulationEnabled", enabled=True)  # as a window in use has it
        page.open(started.at(f"notebooks/{request.param}.ipynb"))
        page.wait(KERNEL)
        yield page


def run(page: browser.Page, cell: str) -> dict[str, Any]:
    """Run the first cell with that text, which becomes the active one."""
    page.value(CHOOSE % json.dumps(cell))
    return page.value(RUN)


@pytest.mark.parametrize("page", ["00_your_machine"], indirect=True)
def test_its_first_lecture_renders_and_its_cells_run(page, released):
    title = "document.querySelector('.jp-NotebookPanel .jp-MarkdownOutput h1')?.textContent"
    assert page.wait(title).startswith("00 Your machine")
    page.wait("document.title.startsWith('00_your_m')")
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
    page.until(lambda: page.value(BEFORE_NAMES) == names, "two tabs that can be told apart")


@pytest.mark.parametrize("page", ["01_parallel_sgd"], indirect=True)
def test_its_stepper_shows_another_step_with_its_sentence_at_a_click(page):
    cell = "step_through("
    assert "error" not in (ran := run(page, cell))["kinds"], ran["text"]
    assert page.value(KEPT) == 1

    def at(step: int) -> list[str] | None:
        """The sentence and a digest of the picture, once the sentence is that of the step."""
        seen = page.value(STEP)
        return seen if seen and seen[0].startswith(f"Step {step}: ") else None

    first = page.until(lambda: at(1), "step 1")
    page.click_on(BUTTON % "next")
    page.until(lambda: (seen := at(2)) and seen[1] != first[1], "step 2, with another picture")
    page.click_on(BUTTON % "previous")
    page.until(lambda: at(1) == first, "step 1 again, with its picture")

    page.value("jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    page.until(lambda: (page.value(FILTER) or "").startswith("invert"), "drawing on a dark page")
