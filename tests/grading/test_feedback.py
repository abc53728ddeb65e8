"""Pages of feedback: whole, safe whatever was handed in, and right in what they say."""

import base64
import dataclasses
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from hpml.checks.verdict import ClaimResult
from hpml.course.schedule import Course
from hpml.grading import feedback
from hpml.grading.record import Picture, Record
from hpml.ranks.evidence import Evidence, RankEvidence
from hpml.trace.launch_svg import launch_svg

from ..page_elements import Elements
from .conftest import HOSTILE, hostile_text

EXERCISES = ("process_group", "shard_sampler", "ddp", "global_metrics")


def seen_in_a_browser(chromium: str, page: str, folder: Path) -> Elements:
    """The page as it stands once a browser has loaded it and run whatever runs."""
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    switches = [
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        *(f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=2000", "--dump-dom"),
    ]
    done = subprocess.run(
        [chromium, *switches, file.as_uri()], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return Elements(done.stdout)


def without_policy(page: str) -> str:
    bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    assert bare != page
    return bare


ATTACK = """%%answer ddp
</code></pre></details><script>document.title='owned'</script>
<img src=x onerror="document.title='owned'"><svg onload="document.title='owned'">
<iframe srcdoc="<script>top.document.title='owned'</script>"></iframe>
<a href="javascript:document.title='owned'">x</a><style>body{display:none}</style>
<meta http-equiv="refresh" content="0;url=data:text/html,owned">
]]>\u202e\x1b[2J
"""


@pytest.fixture
def half_right(record: Callable[..., Record]) -> Record:
    """A submission that passed some, missed some, and tries to break out of its page."""
    mixed = record(
        status={"ddp": "failed", "global_metrics": "missing"},
        name="Ada </title><script>document.title='owned'</script>",
        files=("</p><script>document.title='owned'</script>.ipynb",),
        notes=("<img src=x onerror=\"document.title='owned'\">",),
    )
    evidence = Evidence(1, (RankEvidence(0, "returned"),), 0.1)
    owned = "\"><script>document.title='owned'</script>"
    hostile_svg = "<svg xmlns='http://www.w3.org/2000/svg' onload=\"document.title='owned'\"/>"
    pictures = (
        Picture(owned, launch_svg(evidence, owned)),
        Picture("made elsewhere", hostile_svg),
    )
    results = tuple(
        dataclasses.replace(
            result, answer=ATTACK, printed=ATTACK, headline=ATTACK, where=ATTACK, pictures=pictures
        )
        if result.exercise == "ddp"
        else result
        for result in mixed.results
    )
    return dataclasses.replace(mixed, results=results)


def test_in_a_browser_no_script_of_a_submission_runs(
    half_right: Record, course: Course, tmp_path: Path, needs: Callable[[str], str]
) -> None:
    # The page's policy is taken away here, so that the escaping is what has to hold.
    page = without_policy(feedback.person_page(half_right, course))
    seen = seen_in_a_browser(needs("chromium"), page, tmp_path)
    assert seen.title == "Ada </title><script>document.title='owned'</script>: feedback"
    tags = {tag for tag, _ in seen.elements}
    assert not tags & {"script", "iframe", "svg", "object", "embed", "form", "link", "base"}
    assert not any(name.startswith("on") for _, found in seen.elements for name in found)
    assert "<img src=x onerror=\"document.title='owned'\"><svg onload=" in seen.text
    assert "</code></pre></details><script>document.title='owned'</script>" in seen.text
    assert "38 of 45 points" in seen.text
    assert "2 of 4 exercises passed" in seen.text
    assert "Title of global_metrics" in seen.text  # what comes after the attack is there


def test_the_policy_of_the_page_alone_stops_a_script(
    record: Callable[..., Record], course: Course, tmp_path: Path, needs: Callable[[str], str]
) -> None:
    page = feedback.person_page(record(), course)
    attacked = page.replace("<main>", "<main><script>document.title='owned'</script>", 1)
    chromium = needs("chromium")
    assert seen_in_a_browser(chromium, without_policy(attacked), tmp_path).title == "owned"
    assert seen_in_a_browser(chromium, attacked, tmp_path).title == "Ada Lovelace: feedback"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=hostile_text)
def test_any_text_stays_text(full_of: Callable[[str], Record], course: Course, text: str) -> None:
    harmless = Elements(feedback.person_page(full_of("words"), course))
    page = feedback.person_page(full_of(text), course)
    page.encode()
    found = Elements(page)
    allowed = {tag for tag, _ in harmless.elements} | {"span"}
    assert {tag for tag, _ in found.elements} <= allowed
    for _, attributes in found.elements:
        assert not any(name.startswith("on") for name in attributes)
        assert (attributes.get("src") or "data:image/svg+xml;base64,").startswith("data:image/svg")
        assert (attributes.get("href") or "#").startswith("#")
    assert all(c.isprintable() or c in "\n\t" for c in page)


def test_the_class_page_keeps_any_text_too(
    full_of: Callable[[str], Record], course: Course
) -> None:
    tags = {tag for tag, _ in Elements(feedback.class_page([full_of("x")], course)).elements}
    for text in HOSTILE:
        page = feedback.class_page([full_of(text)], course)
        assert {tag for tag, _ in Elements(page).elements} == tags
        page.encode()


def test_nothing_is_loaded_from_anywhere(record: Callable[..., Record], course: Course) -> None:
    for page in (
        feedback.person_page(record(), course),
        feedback.class_page([record()], course),
    ):
        assert "default-src 'none'" in page
        assert not re.search(r"(src|href)=\"(https?:)?//", page)
        assert "url(" not in page
        assert "@import" not in page


def test_what_a_claim_says_is_said_once(record: Callable[..., Record], course: Course) -> None:
    (first, *_) = record().results
    claims = tuple(
        ClaimResult(f"claim {k}", False, 2, "the ranks hung", "Look at the barrier.", "hang", 2)
        for k in range(5)
    )
    lost = dataclasses.replace(first, status="failed", earned=0, claims=claims)
    text = Elements(feedback.person_page(record(results=(lost,)), course)).text
    assert text.count("With 2 ranks: the ranks hung") == 1
    assert text.count("Look at the barrier.") == 1
    assert text.count("does not hold") == 5


def test_what_was_not_reached_is_not_called_wrong(
    stopped: Callable[[bool], Record], course: Course
) -> None:
    text = Elements(feedback.person_page(stopped(True), course)).text
    assert text.count("does not hold") == 1
    assert text.count("was not judged") == 1
    assert "Not judged until the claim above holds" in text
    assert text.count("0 of 10") == 2
    assert "does not hold" not in Elements(feedback.person_page(stopped(False), course)).text


def test_pictures_are_images_in_the_page(record: Callable[..., Record], course: Course) -> None:
    picture = Picture("With 2 ranks", "<svg>\N{SNOWMAN}</svg>")
    (first, *_) = record().results
    page = feedback.person_page(
        record(results=(dataclasses.replace(first, pictures=(picture,)),)), course
    )
    ((_, image),) = [each for each in Elements(page).elements if each[0] == "img"]
    kind, _, data = image["src"].partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(data).decode() == picture.svg


def test_lines_of_an_answer_are_numbered_as_messages_number_them(
    record: Callable[..., Record], course: Course
) -> None:
    source = '%%answer ddp\n\n"""one\ntwo"""\nx = 1 < 2\r\nif x:\n\ty = "</span>"\n'
    (first, *_) = record().results
    page = feedback.person_page(
        record(results=(dataclasses.replace(first, answer=source),)), course
    )
    (code,) = re.findall(r'<pre class="code answer"><code>(.*?)</code>', page, re.DOTALL)
    lines = Elements(code).text.split("\n")
    assert lines == [
        "%%answer ddp",
        "",
        '"""one',
        'two"""',
        "x = 1 < 2",
        "if x:",
        '\ty = "</span>"',
    ]
    assert code.count('<span class="line">') == len(lines)
    for line in code.split("\n"):
        assert line.count("<span") == line.count("</span>")


def test_a_huge_answer_is_cut_and_that_is_said(
    record: Callable[..., Record], course: Course
) -> None:
    (first, *_) = record().results
    huge = dataclasses.replace(first, answer="x = 1\n" * 500_000, printed="y" * 10**6)
    page = feedback.person_page(record(results=(huge,)), course)
    assert len(page) < 1_000_000
    assert "more characters are left out here" in page


@pytest.mark.parametrize(
    ("ranks", "words"),
    [(1, ", in a run on 1 rank<"), (3, ", in a run on 3 ranks<"), (None, "<")],
)
def test_what_was_printed_has_the_number_of_ranks(
    record: Callable[..., Record], course: Course, ranks: int | None, words: str
) -> None:
    (first, *_) = record().results
    spoke = dataclasses.replace(first, printed="here", world_size=ranks)
    page = feedback.person_page(record(results=(spoke,)), course)
    assert f"What your answer printed{words}" in page


def test_what_is_not_a_mark_is_not_shown_as_one(
    record: Callable[..., Record], course: Course
) -> None:
    text = Elements(feedback.person_page(record(status={"ddp": "not gradable"}), course)).text
    assert "No total yet" in text
    assert "1 exercise could not be graded." in text
    assert text.count("no mark yet") == 2
    assert "0 of 20" not in text


def test_how_it_was_graded_is_said(record: Callable[..., Record], course: Course) -> None:
    safe = Elements(feedback.person_page(record(), course)).text
    assert "in a sandbox of its own (bubblewrap, resource limits)" in safe
    assert "UNSAFE" not in safe
    unsafe = record(unsafe=True, layers=())
    assert "UNSAFE: graded outside a sandbox" in Elements(feedback.person_page(unsafe, course)).text
    assert (
        "UNSAFE: graded outside a sandbox" in Elements(feedback.class_page([unsafe], course)).text
    )


def test_a_refused_submission_has_a_page(record: Callable[..., Record], course: Course) -> None:
    text = Elements(
        feedback.person_page(record(results=(), refused="ada.ipynb: a pipe"), course)
    ).text
    assert "Nothing could be read. ada.ipynb: a pipe" in text
    assert "of 0 points" not in text


def test_the_class_page_links_everyone_and_says_what_was_missed(
    record: Callable[..., Record], course: Course
) -> None:
    class_ = [
        record("ada & co", {"ddp": "failed"}),
        record("bob", {"ddp": "not gradable"}),
        record("eve#1", dict.fromkeys(EXERCISES, "refused"), refused="eve.zip: a bomb"),
        record("fay", {"ddp": "not counted"}),
    ]
    page = Elements(feedback.class_page(class_, course))
    links = [found["href"] for tag, found in page.elements if tag == "a"]
    assert set(links) == {f"feedback/{n}.html" for n in ("ada%20%26%20co", "bob", "eve%231", "fay")}
    order = ["Could not be graded", "Refused, or found but not counted", "Most missed", "People"]
    places = [page.text.index(heading) for heading in order]
    assert places == sorted(places)
    assert "ddp holds that" in page.text
    assert "eve#1, all exercises: eve.zip: a bomb" in page.text
    assert "fay, ddp: what became of ddp" in page.text


@pytest.mark.parametrize("status", ["refused", "not counted"])
def test_what_has_no_mark_has_its_reason_in_its_section_and_no_number(
    record: Callable[..., Record], course: Course, status: str
) -> None:
    page = feedback.person_page(record(status={"ddp": status}), course)
    section = page[page.index('<section class="exercise" id="ddp"') :]
    section = section[: section.index("</section>")]
    assert "What became of ddp" in section
    assert "no mark yet" in section
    assert "of 20" not in section
    assert "No total yet" in page
    assert "1 exercise has no mark" in page


def test_no_page_has_a_seed(record: Callable[..., Record], course: Course) -> None:
    page = feedback.person_page(record(status={"ddp": "failed"}), course)
    assert "./hpml check FILE --id ddp" in page
    assert "--seed" not in page
