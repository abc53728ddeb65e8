"""The report: whole, safe to open, and complete, whatever the notebooks put out."""

import base64
import io
import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from hpml.checks.verdict import ClaimResult, Verdict
from hpml.course import folded, picture, report, schedule
from hpml.course.page import sanitized
from hpml.course.run import CourseRun, DataUsed, plan
from hpml.doctor import Fact
from hpml.publish import RESULT, SKIP, VERDICT

from ..page_elements import Elements

COURSE = """
title = "A day of rings"
subtitle = "All <hands> on"
[[module]]
id = "03"
name = "rings"
title = "Rings & trees"
slot = "09:00"
minutes = 45
asks = "Who adds up?"
exercises = [{ id = "ring", minutes = 10 }, { id = "tree", minutes = 10 }]
LEADS
[[module]]
id = "04"
name = "meshes"
title = "Meshes"
slot = "10:00"
minutes = 45
asks = "Which axis?"
exercises = []
"""
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n not much of a picture").decode()
FACTS = (
    Fact("cores", "2 usable", True),
    Fact("SLURM", "none", False, "job scripts are read, not run", "log in to a cluster"),
)


def shown(data: dict, cell: str = "show()"):
    return new_code_cell(cell, outputs=[new_output("display_data", data=data)])


def verdict(exercise: str, passed: bool) -> dict:
    claims = (
        ClaimResult("sums are right", True, 1),
        ClaimResult("no <more> than needed", passed, 2, "sent 9 bytes", "Send less.", "less", 3),
    )
    status = "passed" if passed else "failed"
    return Verdict(exercise, f"The {exercise}", status, claims, "1 of 2 claims hold", 7).record()


@pytest.fixture
def made(tmp_path: Path):
    """`made(lecture=[cells], solution=[cells])` writes a report; returns run, front page, pages."""

    def make(
        lecture=(), solution=(), modules=("03",), synthetic=False, change=lambda run: None, leads=""
    ) -> tuple[CourseRun, Elements, dict[str, str]]:
        for folder, cells in (("notebooks", lecture), ("solutions", solution)):
            (tmp_path / folder).mkdir()
            for name in ("03_rings", "04_meshes"):
                mine = cells if name == "03_rings" else []
                nbformat.write(new_notebook(cells=list(mine)), tmp_path / folder / f"{name}.ipynb")
        (tmp_path / "course.toml").write_text(
            COURSE.replace("LEADS", f'leads = "{leads}"' if leads else "")
        )
        checks = tmp_path / "src/hpml/modules/m03_rings/checks"
        checks.mkdir(parents=True)
        (checks / "ring.py").write_text("Claim('it adds', 4, f)\n")
        (checks / "tree.py").write_text("Claim('it adds', 3, f)\n")
        words = "SYNTHETIC images (generated)" if synthetic else "real CIFAR-10, from /data"
        data = DataUsed(tmp_path, words, synthetic)
        run = plan(schedule.load(tmp_path / "course.toml"), modules, data)
        for module in run.modules:
            for kind, notebook in module.notebooks.items():
                notebook.seconds = 75.0
                for cell in notebook.cells:
                    cell.status, cell.seconds = "ran", 2.0
                    given = lecture if kind == "lecture" else solution
                    if module.module.id == "03":
                        notebook.notebook.cells[cell.index].outputs = given[cell.index].outputs
        change(run)
        out = tmp_path / "out"
        front = report.write(run, FACTS, out)
        pages = {path.name: path.read_text() for path in out.glob("*.html")}
        assert front == out / "index.html"
        return run, Elements(pages["index.html"]), pages

    return make


FIGURE = shown(
    {"image/png": PIXEL, RESULT: {"name": "Training curve", "unit": "", "caption": "It <learns>."}}
)
RATES = {"1 rank": 812.4, "2 ranks": 1534.2}
NUMBERS = shown(
    {
        "text/plain": "x",
        RESULT: {"name": "Speed", "value": RATES, "unit": "images/s", "caption": ""},
    }
)
LEADING = shown(
    {
        "image/png": PIXEL,
        RESULT: {"name": "A curve", "unit": "", "caption": "Up.", "lead": "It was 3 % <off>."},
    }
)
HOSTILE = [
    {"text/html": "<script>steal()</script><b onclick='steal()'>bold</b>"},
    {"text/html": "<img src='https://evil.example/x.png' onerror='steal()'>"},
    {"text/html": "<iframe src='https://evil.example'></iframe><svg onload='steal()'></svg>"},
    {"text/html": "<a href='javascript:steal()'>x</a><a href='data:text/html,steal()'>y</a>"},
    {"text/html": "<style>@import 'https://evil.example/x.css'; body{display:none}</style>"},
    {"text/html": "<p style='background:url(https://evil.example/x.png)'>x</p>"},
    {"text/html": "<link rel=stylesheet href='https://evil.example/x.css'><base href='//evil'>"},
    {"text/markdown": "<script>steal()</script> ![x](https://evil.example/x.png)"},
    {"image/svg+xml": "<svg xmlns='http://www.w3.org/2000/svg'><script>steal()</script></svg>"},
    {"image/png": "\"><script>steal()</script>"},
    {"text/plain": "</pre><script>steal()</script>"},
    {"text/latex": "$\\text{<script>steal()</script>}$"},
    {"text/latex": "$\\href{javascript:steal()}{x} a<b$"},
    {"application/javascript": "steal()"},
    {RESULT: {"name": "<script>steal()</script>", "value": "<script>", "unit": "<b>"}},
    {SKIP: {"what": "<script>steal()</script>", "why": "<script>"}},
]  # fmt: skip
_RUNS = {"script", "iframe", "object", "embed", "link", "base", "form", "svg", "meta"}


def assert_whole_and_inert(page: str) -> None:
    elements = Elements(page).elements
    for tag, attributes in elements:
        if tag == "meta":
            assert attributes.get("http-equiv", "Content-Security-Policy").startswith("Content")
            continue
        assert tag not in _RUNS, tag
        assert not [name for name in attributes if name.startswith("on")], attributes
        assert attributes.get("src", "data:image/").startswith("data:image/"), attributes
        assert not re.match(r"\s*(javascript|data):", attributes.get("href", ""), re.IGNORECASE)
        assert "url(" not in attributes.get("style", "")
    styles = "".join(re.findall(r"<style>(.*?)</style>", page, re.DOTALL))
    assert styles
    assert "url(" not in styles
    assert "@import" not in styles


def test_the_front_page_lists_everything(made):
    skipped = shown({SKIP: {"what": "Two nodes", "why": "no SLURM here"}})
    _, front, _ = made(
        lecture=[FIGURE, NUMBERS, skipped],
        solution=[shown({VERDICT: verdict("ring", True)}), shown({VERDICT: verdict("tree", True)})],
    )
    for words in (
        "A day of rings", "All <hands> on", "real CIFAR-10, from /data",  # what it is
        "All 5 cells ran, 2 of 2 exercises passed", "09:00", "03 Rings & trees", "Who adds up?",
        "04 Meshes", "1 min 15 s", "✓︎ ran", "7",  # the day and its times
        "Training curve.", "It <learns>.", "Speed in images/s", "812", "1,534",  # the figures
        "The ring", "The tree", "✓︎ passed", "3 of 3",  # the verdicts
        "Two nodes: no SLURM here", "Module 04, Meshes: not asked for in this run",  # the skips
        "2 usable", "Costs: job scripts are read, not run. Remedy: log in to a cluster.",
    ):  # fmt: skip
        assert words in front.folded.replace("\N{NO-BREAK SPACE}", " "), words
    pictures = [attributes for tag, attributes in front.elements if tag == "img"]
    expected = {"src": f"data:image/png;base64,{PIXEL}", "alt": "It <learns>."}
    assert pictures == [expected]


def test_real_data_is_said_and_synthetic_data_is_unmistakable_on_every_page(made):
    _, _, pages = made(lecture=[NUMBERS], synthetic=True)
    assert len(pages) == 3
    for page in pages.values():
        assert "<strong>SYNTHETIC data.</strong>" in page
    assert "trained on SYNTHETIC images" in Elements(pages["index.html"]).folded


def test_real_data_is_not_called_synthetic(made):
    _, _, pages = made(lecture=[NUMBERS])
    assert all("SYNTHETIC" not in page and "real CIFAR-10" in page for page in pages.values())


def test_a_failure_is_on_the_front_page_with_its_error_and_a_link_to_its_cell(made):
    def fail(run: CourseRun) -> None:
        cells = run.modules[0].notebooks["lecture"].cells
        cells[0].status, cells[0].error = "failed", "ValueError: <bad>"
        cells[1].status = "not run"

    run, front, pages = made(lecture=[NUMBERS, new_code_cell("2")], change=fail)
    assert "“show()”" in front.folded
    assert "ValueError: <bad>" in front.folded
    assert "1 cell after it not run" in front.folded
    links = [attributes.get("href") for tag, attributes in front.elements if tag == "a"]
    assert "03_rings_lecture.html#cell-0" in links
    assert 'id="cell-0"' in pages["03_rings_lecture.html"]
    assert ">not run</p>" in pages["03_rings_lecture.html"]
    assert "The cells after it were not run." in pages["03_rings_lecture.html"]
    assert not report.all_well(run, report.collect(run))


def test_where_the_last_cell_failed_nothing_is_said_of_cells_after_it(made):
    def fail(run: CourseRun) -> None:
        cell = run.modules[0].notebooks["lecture"].cells[0]
        cell.status, cell.error = "failed", "ValueError: bad"

    _, front, pages = made(lecture=[NUMBERS], change=fail)
    assert "ValueError: bad" in pages["03_rings_lecture.html"]
    assert "after it" not in pages["03_rings_lecture.html"] + front.folded


def test_a_kernel_that_never_came_up_is_reported_with_its_last_words(made):
    def fail(run: CourseRun) -> None:
        notebook = run.modules[0].notebooks["lecture"]
        notebook.error, notebook.kernel_log = "the kernel did not start", "no module <x>"
        notebook.cells[0].status = "not run"

    _, front, _ = made(lecture=[NUMBERS], change=fail)
    assert "the kernel did not start" in front.folded
    assert "no module <x>" in front.folded


def test_an_interrupted_run_says_so(made):
    def interrupt(run: CourseRun) -> None:
        run.interrupted = True
        run.modules[0].notebooks["solution"].cells[0].status = "not run"
        run.modules[0].notebooks["solution"].seconds = 0.0

    run, front, _ = made(
        lecture=[NUMBERS], solution=[shown({VERDICT: verdict("ring", True)})], change=interrupt
    )
    assert "The run was interrupted." in front.folded
    assert "1 of 2 cells ran" in front.folded
    assert run.modules[0].notebooks["solution"].status == "not run"


def test_the_summary_names_each_exercise_that_did_not_pass_and_why(made):
    tree = shown({VERDICT: verdict("tree", False)})
    run, front, _ = made(solution=[tree])
    words = report.summary(run, report.collect(run))
    assert "0 of 2 exercises passed" in words
    assert "tree: 1 of 2 claims hold." in words
    assert "ring: not checked." in words
    assert words in front.folded


def test_a_claim_that_was_not_reached_is_not_called_wrong(made):
    stopped = verdict("tree", False)
    later = {"reached": False, "message": "not judged until the claim above holds"}
    stopped["claims"][1].update(later)
    _, _, pages = made(solution=[shown({VERDICT: stopped})])
    page = Elements(pages["03_rings_solution.html"]).folded
    assert "– not judged" in page
    assert "✗\N{VARIATION SELECTOR-15} no" not in page


def test_an_exercise_that_cannot_be_judged_here_is_named_with_the_reason(made):
    claims = (ClaimResult("on a node", False, 2, "no SLURM here", judged=False),)
    open_ = Verdict("ring", "The ring", "not gradable", claims, "1 cannot be judged here", 7)
    run, *_ = made(solution=[shown({VERDICT: open_.record()})])
    assert "ring: 1 cannot be judged here: no SLURM here." in report.summary(
        run, report.collect(run)
    )


def test_the_exercises_of_a_run_that_ended_early_share_one_sentence(made):
    def stop(run: CourseRun) -> None:
        run.modules[0].notebooks["solution"].cells[0].status = "not run"

    run, *_ = made(solution=[new_code_cell("1")], change=stop)
    words = report.summary(run, report.collect(run))
    its = "the solution notebook of module 03"
    assert f"ring, tree: not checked, because {its} did not run to its end." in words


def test_the_table_of_the_day_comes_before_what_was_measured(made):
    _, front, _ = made(lecture=[FIGURE, NUMBERS])
    assert front.folded.index("The day When") < front.folded.index("Measured in this run")


def test_a_plot_may_be_shown_dark_and_a_photograph_may_not():
    def address(image: Image.Image) -> str:
        content = io.BytesIO()
        image.save(content, "PNG")
        return picture.address({"image/png": base64.b64encode(content.getvalue()).decode()})

    plot = Image.new("RGB", (200, 100), "white")
    plot.paste("navy", (20, 20, 80, 60))
    photograph = Image.effect_noise((200, 100), 80)
    assert picture.is_drawing(address(plot))
    assert not picture.is_drawing(address(photograph))
    assert not picture.is_drawing(picture.address({"image/png": PIXEL}))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_colour_of_text_has_a_contrast_of_7_on_what_it_stands_on(theme):
    """WCAG 2.2, success criterion 1.4.6 and the definition of contrast ratio."""
    style = (Path(report.__file__).parent / "templates/style.css").read_text()
    at_dark = style.index("@media (prefers-color-scheme: dark)")
    part = style[:at_dark] if theme == "light" else style[at_dark : style.index("* { box-sizing")]
    colours = dict(re.findall(r"--([\w-]+): #([0-9a-f]{6})", part))

    def luminance(name: str) -> float:
        parts = [int(colours[name][at : at + 2], 16) / 255 for at in (0, 2, 4)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    papers = ["paper", "raised", "bad-paper", "warn-paper"]
    texts = ["ink", "soft", "accent", "good", "bad", "warn"]
    for text in texts + [name for name in colours if name.startswith("c-")]:
        for paper in papers:
            low, high = sorted([luminance(text), luminance(paper)])
            assert (high + 0.05) / (low + 0.05) >= 7, (text, paper)


@pytest.mark.parametrize("tree", [None, False])
def test_all_is_well_only_when_every_exercise_passed(made, tree):
    cells = [shown({VERDICT: verdict("ring", True)})]
    if tree is not None:
        cells.append(shown({VERDICT: verdict("tree", tree)}))
    run, front, _ = made(solution=cells)
    assert not report.all_well(run, report.collect(run))
    assert "1 of 2 exercises passed" in front.folded
    status = "not checked in this run" if tree is None else "1 of 2 claims hold"
    assert status in front.folded


def test_all_is_well_when_all_ran_and_passed(made):
    run, _, _ = made(solution=[shown({VERDICT: verdict(name, True)}) for name in ("ring", "tree")])
    assert report.all_well(run, report.collect(run))


@pytest.mark.parametrize(("others_hold", "well"), [(True, True), (False, False)])
def test_a_claim_that_cannot_be_judged_here_does_not_make_it_ill(made, others_hold, well):
    claims = (
        ClaimResult("it is right", others_hold, 3),
        ClaimResult("SLURM takes it", False, 1, "no SLURM answers here", judged=False),
    )
    status = "not gradable" if others_hold else "failed"
    tree = Verdict("tree", "The tree", status, claims, "1 cannot be judged here", 7).record()
    run, front, _ = made(solution=[shown({VERDICT: verdict("ring", True)}), shown({VERDICT: tree})])
    assert report.all_well(run, report.collect(run)) is well
    assert "1 of 2 exercises passed" in front.folded
    assert "no SLURM answers here" in front.folded


def test_nothing_that_could_be_judged_is_not_well(made):
    alone = (ClaimResult("SLURM takes it", False, 1, "no SLURM answers here", judged=False),)
    tree = Verdict("tree", "The tree", "not gradable", alone, "", 7).record()
    run, *_ = made(solution=[shown({VERDICT: verdict("ring", True)}), shown({VERDICT: tree})])
    assert not report.all_well(run, report.collect(run))


def test_the_source_of_a_folded_cell_is_shown_to_who_opens_it(made):
    cell = shown({"text/plain": "It is 42."}, "conclude(True, 'It is 42.', '')")
    folded.fold(new_notebook(cells=[cell]))
    _, _, pages = made(lecture=[cell, NUMBERS])
    page = pages["03_rings_lecture.html"]
    assert page.count("<details><summary>how this is concluded</summary>") == 1
    assert page.index("</summary>") < page.index('class="code"') < page.index("</details>")
    assert page.index("</details>") < page.index("It is 42.</pre>")


def test_verdicts_of_a_lecture_do_not_count(made):
    run, _, _ = made(lecture=[shown({VERDICT: verdict("ring", False)})])
    assert report.collect(run).verdicts == {}


def test_a_failed_verdict_shows_its_message_and_hint_on_the_page(made):
    _, _, pages = made(solution=[shown({VERDICT: verdict("ring", False)})])
    text = Elements(pages["03_rings_solution.html"]).folded
    assert "With 3 ranks: sent 9 bytes" in text
    assert "Hint: Send less." in text
    assert "no <more> than needed" in text


TITLE = "The day's own curve"


def test_the_front_page_begins_with_the_figure_that_leads_and_shows_it_once(made):
    _, front, _ = made(lecture=[NUMBERS, LEADING, FIGURE], leads=TITLE)
    pictures = [attributes["alt"] for tag, attributes in front.elements if tag == "img"]
    assert pictures == ["Up.", "It <learns>."]
    assert front.folded.index(TITLE) < front.folded.index("It was 3 % <off>.")
    assert front.folded.index("It was 3 % <off>.") < front.folded.index("Measured in this run")
    links = [attributes.get("href") for tag, attributes in front.elements if tag == "a"]
    assert links[0] == "03_rings_lecture.html#cell-1"
    assert "Not measured in this run" not in front.folded


def test_where_only_the_leading_figure_was_published_no_section_is_empty(made):
    _, front, _ = made(lecture=[LEADING], leads=TITLE)
    assert TITLE in front.folded
    assert "Measured in this run" not in front.folded


def failed(run: CourseRun) -> None:
    run.modules[0].notebooks["lecture"].cells[0].status = "failed"


def interrupted(run: CourseRun) -> None:
    run.interrupted = True
    run.modules[0].notebooks["lecture"].cells[0].status = "not run"


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"lecture": [NUMBERS], "modules": ("04",)}, "module 03 was not asked for"),
        (
            {"lecture": [shown({SKIP: {"what": "x", "why": "no <links>.", "lead": True}})]},
            "no <links>",
        ),
        ({"lecture": [NUMBERS], "change": failed}, "the lecture of module 03 failed before it"),
        (
            {"lecture": [NUMBERS], "change": interrupted},
            "the lecture of module 03 did not come so far",
        ),
        ({"lecture": [NUMBERS]}, "the lecture of module 03 did not publish it"),
        ({"solution": [LEADING]}, "the lecture of module 03 did not publish it"),
    ],
)
def test_where_there_is_no_leading_figure_one_line_gives_the_reason(made, how, why):
    _, front, _ = made(leads=TITLE, **how)
    assert f"{TITLE} Not measured in this run: {why}." in front.folded


def test_a_course_in_which_nothing_leads_says_nothing_of_it(made):
    _, front, _ = made(lecture=[LEADING])
    assert "Not measured" not in front.folded
    assert [tag for tag, _ in front.elements].count("img") == 1


def test_a_result_published_again_replaces_the_earlier_one(made):
    later = shown({RESULT: {"name": "Speed", "value": 9, "unit": "", "caption": ""}})
    run, _, _ = made(lecture=[NUMBERS, later])
    assert [result.value for result in report.collect(run).results] == [9]


@pytest.mark.parametrize("data", HOSTILE, ids=lambda data: f"{data}"[:60])
def test_hostile_outputs_neither_run_nor_load(made, data):
    _, _, pages = made(lecture=[shown(data)], solution=[shown(data)])
    assert len(pages) == 3
    for page in pages.values():
        assert_whole_and_inert(page)
        assert "default-src 'none'" in page


def test_hostile_streams_errors_titles_and_prose_are_text(made):
    bad = "</pre><script>steal()</script>\x1b[31m<img src=x onerror=steal()>"
    cell = new_code_cell(
        bad,
        outputs=[
            new_output("stream", name="stderr", text=bad),
            new_output("error", ename=bad, evalue=bad, traceback=[bad]),
        ],
    )

    def fail(run: CourseRun) -> None:
        failed = run.modules[0].notebooks["lecture"].cells[0]
        failed.status, failed.error = "failed", bad

    _, _, pages = made(lecture=[cell, new_markdown_cell(bad)], change=fail)
    for page in pages.values():
        assert_whole_and_inert(page)


def test_the_allow_list_keeps_tables_and_safe_links():
    table = '<table><tbody><tr><td style="text-align:right">1</td></tr></tbody></table>'
    assert sanitized(table) == table
    kept = sanitized('<a href="https://pytorch.org">docs</a>')
    assert 'href="https://pytorch.org"' in kept


def test_formulas_are_mathml_and_unreadable_ones_stay_as_text(made):
    prose = "With $p$ ranks: $$\\frac{p-1}{p}$$ and $\\begin{oops}$."
    _, _, pages = made(lecture=[new_markdown_cell(prose), new_code_cell("1")])
    page = pages["03_rings_lecture.html"]
    assert (
        "<mfrac><mrow><mi>p</mi><mo>−</mo><mn>1</mn></mrow><mrow><mi>p</mi></mrow></mfrac>" in page
    )
    assert "\\frac" not in page
    assert "\\begin{oops}" in Elements(page).folded


def test_links_between_notebooks_lead_to_pages_and_others_to_files(made):
    prose = (
        "[a](../solutions/03_rings.ipynb#Why) [b](../slurm/x%20y.slurm) "
        "[c](https://pytorch.org) [d](#Here)"
    )
    _, _, pages = made(lecture=[new_markdown_cell(prose), new_code_cell("1")])
    page = Elements(pages["03_rings_lecture.html"])
    links = [attributes.get("href") for tag, attributes in page.elements if tag == "a"]
    assert "03_rings_solution.html#Why" in links
    assert "../slurm/x%20y.slurm" in links
    assert "https://pytorch.org" in links
    assert "#Here" in links


def test_pictures_beside_a_notebook_become_part_of_the_page(made, tmp_path: Path):
    (tmp_path / "ring.png").write_bytes(b"picture")
    prose = "![a ring](../ring.png) ![gone](../gone.png)"
    _, _, pages = made(lecture=[new_markdown_cell(prose), new_code_cell("1")])
    page = Elements(pages["03_rings_lecture.html"])
    pictures = [attributes for tag, attributes in page.elements if tag == "img"]
    encoded = base64.b64encode(b"picture").decode()
    assert pictures == [{"src": f"data:image/png;base64,{encoded}", "alt": "a ring"}]
    assert "gone" in page.folded


def test_code_below_a_magic_is_highlighted(made):
    _, _, pages = made(lecture=[new_code_cell("%%answer ddp\nimport <torch>")])
    page = pages["03_rings_lecture.html"]
    assert '<span class="magic">%%answer ddp</span>\n<span class="kn">import</span>' in page
    assert "&lt;" in page


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.6, "1 min 00 s"), (432, "7 min 12 s"),
     (3599.7, "1 h 00 min"), (3780, "1 h 03 min")],
)  # fmt: skip
def test_durations_are_said_as_people_say_them(seconds, words):
    assert report.duration(seconds) == words
