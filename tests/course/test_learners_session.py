"""A learner's session with a release, in JupyterLab in a real browser: what each step shows."""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpml.checks import hint_texts
from hpml.course import schedule
from hpml.course.instructors import release, wrong_answers
from hpml.tensorboard import browser

from ..jupyter_lab import LIMIT, lab
from ..waiting import has_ended

pytestmark = pytest.mark.measures  # a browser

COURSE = schedule.load()
WIDE, NARROW = 1200, 390  # px
THEMES = ("JupyterLab Dark", "JupyterLab Light")

SHELL = "[...jupyterapp.shell.widgets('main')]"
NOTEBOOK = f"{SHELL}.find(each => each.context?.path == %s)"
IDLE = "%s?.sessionContext?.session?.kernel?.status == 'idle'"
SELECT = """(notebook => {
    jupyterapp.shell.activateById(notebook.id);
    const index = notebook.content.widgets.findIndex(cell =>
        cell.model.type == "code" && cell.model.sharedModel.source.startsWith(%s));
    notebook.content.deselectAll();
    notebook.content.activeCellIndex = index;
    return notebook.content.scrollToCell(notebook.content.widgets[index]).then(() => index);
})(%s)"""
# The whole text is selected, as by Ctrl-A, and what is typed next replaces it.
EDIT = """(notebook => {
    notebook.content.mode = "edit";
    const editor = notebook.content.activeCell.editor;
    const end = editor.getPositionAt(editor.model.sharedModel.source.length);
    editor.focus();
    editor.setSelection({start: {line: 0, column: 0}, end});
    return document.activeElement.closest(".cm-content") != null;
})(%s)"""
SOURCE = "%s.content.activeCell.model.sharedModel.source"
CELL = "%s.content.activeCell.node.querySelector('.jp-Cell-outputArea')"
# Every output of the cell has been drawn: their number, else null
DRAWN = """((notebook, area) => {
    const outputs = notebook.content.activeCell.model.outputs.length;
    const drawn = [...area.querySelectorAll(".jp-OutputArea-output")].filter(
        each => each.textContent || each.querySelector("img"));
    return drawn.length == outputs ? outputs : null;
})(%s, %s)"""
# Ratio of contrast of each text that is seen, with its element's background: W3C, Web Content
# Accessibility Guidelines 2.1, "contrast ratio" and "relative luminance". A canvas lays colours
# over one another. A bar of a drawing is not a background: its text is beside or above it.
CONTRASTS = """(area => {
    const drawn = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const lay = colour => { drawn.fillStyle = colour; drawn.fillRect(0, 0, 1, 1); };
    const luminance = () => {
        const linear = [...drawn.getImageData(0, 0, 1, 1).data].map(level => level / 255).map(
            level => level <= 0.04045 ? level / 12.92 : ((level + 0.055) / 1.055) ** 2.4);
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    const found = [];
    const texts = document.createTreeWalker(area, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const range = document.createRange();
        range.selectNodeContents(texts.currentNode);
        const words = texts.currentNode.data.trim();
        if (!words || !range.getClientRects().length) continue;
        const behind = [];
        const element = texts.currentNode.parentElement;
        for (let each = element; each; each = each.parentElement) behind.unshift(each);
        lay("white");
        behind.forEach(each => lay(getComputedStyle(each).backgroundColor));
        const ground = luminance();
        const style = getComputedStyle(element);
        lay(element.closest("svg") ? style.fill : style.color);
        const [low, high] = [ground, luminance()].sort((one, other) => one - other);
        found.push([words, (high + 0.05) / (low + 0.05)]);
    }
    return found;
})(%s)"""
# What is wider than the place that it has, of the outputs and the verdict in them; or not seen
TOO_WIDE = """(area => [...area.querySelectorAll(".jp-OutputArea-output, .hpml-verdict")].filter(
    each => !each.clientWidth || each.scrollWidth > each.clientWidth + 1).map(
    each => [each.className, each.scrollWidth, each.clientWidth]))(%s)"""
IN_VIEW = """(async notebook => {
    await notebook.content.scrollToCell(notebook.content.activeCell);
    return notebook.node.getBoundingClientRect().right <= window.innerWidth;
})(%s)"""
SPLASH = "document.getElementById('jupyterlab-splash')"  # it covers the page for a while
DIALOG = "document.querySelector('.jp-Dialog .jp-mod-accept')"


@dataclass(frozen=True)
class Notebook:
    """An open notebook. Cells are named by how they begin; the last one named is the active one."""

    page: browser.Page
    path: str

    @property
    def widget(self) -> str:
        return NOTEBOOK % json.dumps(self.path)

    @property
    def outputs(self) -> str:
        return CELL % self.widget

    def select(self, cell: str) -> None:
        index = self.page.value(SELECT % (json.dumps(cell), self.widget))
        assert index not in (None, -1), f"{self.path} has no cell {cell!r}"

    def write(self, text: str, cell: str = "") -> None:
        """Type `text` in place of a cell's; without one, of the active cell's."""
        if cell:
            self.select(cell)
        assert self.page.value(EDIT % self.widget)
        self.page.call("Input.insertText", text=text)
        assert self.page.value(SOURCE % self.widget) == text

    def command(self, name: str) -> None:
        self.page.value(f"jupyterapp.commands.execute('{name}').then(() => null)")

    def begin(self, cell: str) -> None:
        """Run a cell, and do not wait for its end."""
        self.select(cell)
        self.page.value("void (window.run = jupyterapp.commands.execute('notebook:run-cell'))")

    def ended(self) -> str:
        """What is seen below the cell that was begun last, once it has ended."""
        self.page.value("window.run.then(() => null)")
        self.page.wait(f"{DRAWN % (self.widget, self.outputs)} != null")
        return self.page.value(f"{self.outputs}.innerText").strip()

    def run(self, cell: str) -> str:
        self.begin(cell)
        return self.ended()

    def answer(self, exercise: str, text: str) -> str:
        """Type an answer, run it and check it: what is seen below the check."""
        self.write(text, f"%%answer {exercise}")
        assert self.run(f"%%answer {exercise}") == ""
        return self.run(f'check("{exercise}")')


@pytest.fixture(scope="module")
def page(made, needs, tmp_path_factory) -> Iterator[browser.Page]:
    """JupyterLab on a release of its own, in a browser that can reach nothing else."""
    chromium, folder = needs("chromium"), tmp_path_factory.mktemp("session")
    released, _ = release.write(made, folder / "release")
    paths = {"PYTHONPATH": str(released / "src"), "HPML_HOME": str(folder / "home")}
    with lab(folder, **paths) as started, browser.page(chromium, LIMIT) as page:
        page.size(WIDE, 1600)
        page.call("Emulation.setFocusEmulationEnabled", enabled=True)
        page.open(started.at("exercises/00_your_machine.ipynb"))
        yield page
        inside = (f"{started.address}/", "data:", "blob:", "about:")
        assert [each for each in page.requested if not each.startswith(inside)] == []


def opened(page: browser.Page, module: str) -> Notebook:
    """A module's exercises, with their kernel."""
    notebook = Notebook(page, COURSE.module(module).exercise_notebook.as_posix())
    asked = json.dumps({"path": notebook.path})
    page.wait("jupyterapp.restored.then(() => jupyterapp.shell.collapseLeft() ?? true)")
    page.value(f"jupyterapp.commands.execute('docmanager:open', {asked}).then(() => null)")
    page.wait(IDLE % notebook.widget)
    return notebook


def wrong(exercise: str, name: str) -> str:
    """A wrong answer of the catalogue."""
    found = {each.name: each for each in wrong_answers.read(COURSE, exercise)}
    return found[name].answer(right(exercise))


def right(exercise: str) -> str:
    return wrong_answers.solution(COURSE, exercise)


def assert_readable(notebook: Notebook) -> None:
    """The outputs of the active cell, in both themes: 7:1 for text, 4.5:1 for marks and drawings.

    They are as wide as their place, in a wide and in a narrow window.
    """
    page = notebook.page
    for theme in THEMES:
        chosen = json.dumps({"theme": theme})
        page.value(f"jupyterapp.commands.execute('apputils:change-theme', {chosen})")
        page.wait(f"document.body.dataset.jpThemeName == {json.dumps(theme)} && !({SPLASH})")
        contrasts = page.value(CONTRASTS % notebook.outputs)
        assert len(contrasts) > 5
        pale = [(words, r) for words, r in contrasts if r < (4.5 if words in "✓✗?–" else 7)]
        assert pale == [], theme
    for width in (NARROW, WIDE):
        page.size(width, 1600)
        page.wait(IN_VIEW % notebook.widget)
        assert page.value(TOO_WIDE % notebook.outputs) == [], f"{width} px"


def test_a_wrong_answer_its_hints_and_the_right_one(page):
    """Module 00."""
    notebook = opened(page, "00")
    seen = notebook.answer("hello_ranks", wrong("hello_ranks", "only_the_root_calls"))
    assert "✗ hello_ranks" in seen
    assert "0 of 2 points" in seen
    assert "with 2 ranks: rank 0 waits in all_reduce" in seen
    assert "dist.all_reduce(total)" in seen  # the line that it names
    assert "Hint. A collective is complete once every rank has called it." in seen
    assert "change the answer cell, run it, and check again" in seen
    assert "Traceback" not in seen
    assert page.value(f"{notebook.outputs}.querySelectorAll('svg.hpml-calls').length") == 1
    assert_readable(notebook)

    notebook.command("notebook:insert-cell-below")
    notebook.write(ask := f"!{sys.executable} -m hpml hint hello_ranks")
    hints = hint_texts.of("hello_ranks")
    assert hints["start"] in " ".join(notebook.run(ask).split())
    assert hints["hang"] in " ".join(notebook.run(ask).split())  # of what failed

    seen = notebook.answer("hello_ranks", right("hello_ranks"))
    assert "✓ hello_ranks" in seen
    assert "2 of 2 points" in seen
    assert "The core path of module 00, Your machine, is done." in seen
    following = COURSE.module("00").exercises[1]  # of this module, though not of the core path
    assert f"next: {following.id} (more, {following.minutes} min)" in seen
    assert_readable(notebook)


def test_a_check_names_the_text_that_it_judges(page):
    """Module 01: the answer's cell is edited, and not run."""
    notebook = opened(page, "01")
    seen = notebook.answer("amdahl", false := wrong("amdahl", "time_for_speedup"))
    assert "✗ amdahl" in seen
    assert "strong_speedup(" in seen
    assert "Hint. " in seen
    seen = notebook.answer("amdahl", right("amdahl"))
    assert "✓ amdahl" in seen
    assert "5 of 5 points" in seen
    assert "judged:" not in seen

    notebook.write(false, "%%answer amdahl")
    notebook.command("docmanager:save")
    seen = notebook.run('check("amdahl")')
    assert "✓ amdahl" in seen  # of the text that was run
    assert "judged: the answer that was run at " in seen
    assert "Its cell was edited since: run the cell, then check again." in seen
    assert_readable(notebook)
    assert notebook.run("%%answer amdahl") == ""
    seen = notebook.run('check("amdahl")')
    assert "✗ amdahl" in seen
    assert "judged:" not in seen


def test_a_check_that_is_interrupted_and_a_kernel_that_is_restarted(page, tmp_path):
    """Module 06."""
    endless = f"""\
%%answer global_metrics
import os
import time
from pathlib import Path


def global_metrics(batches):
    Path({str(tmp_path)!r}, str(os.getpid())).touch()
    while batches:
        time.sleep(0.1)"""
    notebook = opened(page, "06")
    notebook.write(endless, "%%answer global_metrics")
    assert notebook.run("%%answer global_metrics") == ""
    seen = interrupted(notebook, tmp_path)
    while "points" in seen:  # so busy a machine that the ranks' limit came first
        seen = interrupted(notebook, tmp_path)
    assert seen == "global_metrics: interrupted, and not judged"
    pids = [int(name) for name in os.listdir(tmp_path)]
    page.until(lambda: all(map(has_ended, pids)), "end of the ranks")

    page.value("void (window.restart = jupyterapp.commands.execute('notebook:restart-kernel'))")
    page.wait(f"{DIALOG} != null")
    page.click_on(DIALOG)
    page.value("window.restart.then(() => null)")
    page.wait(IDLE % notebook.widget)
    seen = notebook.run('check("global_metrics")')
    assert "this kernel has no answer yet: run the cell that begins with" in seen
    assert "Traceback" not in seen
    assert notebook.run("%load_ext hpml") == ""
    seen = notebook.answer("global_metrics", right("global_metrics"))
    assert "✓ global_metrics" in seen
    assert "5 of 5 points" in seen


def interrupted(notebook: Notebook, ranks: Path) -> str:
    """What is seen of a check that is interrupted once one more rank is in the folder `ranks`."""
    before = len(os.listdir(ranks))
    notebook.begin('check("global_metrics")')
    notebook.page.until(lambda: len(os.listdir(ranks)) > before, "rank that runs the answer")
    notebook.command("notebook:interrupt-kernel")
    return notebook.ended()
