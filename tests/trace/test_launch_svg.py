"""The picture of a launch: valid SVG of bounded size, whatever its ranks reported."""

import math
import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from hypothesis import given, settings
from hypothesis import strategies as st

from hpml.ranks.evidence import Call, Diagnosis, Evidence, Mark, Raised, RankEvidence
from hpml.trace.launch_svg import CALLS, LEFT, RIGHT, STUCK, WIDTH, launch_svg

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "]]>&amp;\u202e\x1b[2J\x00",
)

SVG = "{http://www.w3.org/2000/svg}"
BAR = re.compile(r"#[0-9A-F]{6}")


def call(issued: float, finished: float | None, operation: str = "all_reduce", **fields) -> Call:
    made = {"index": 1, "group": (0, 1), "sequence": 1, "dtype": "float32", "shape": (4,)}
    made |= {"nbytes": 16, "reduction": "sum", "line": 5, "waited": issued}
    return Call(operation=operation, issued=issued, finished=finished, **made | fields)


def drawn(evidence: Evidence) -> Element:
    return ElementTree.fromstring(launch_svg(evidence, "With 2 ranks"))


def bars(root: Element) -> list[Element]:
    """What is drawn of calls; swatches of the legend, which are 12 wide and high, left out."""
    return [
        rect
        for rect in root.iter(f"{SVG}rect")
        if BAR.fullmatch(rect.get("fill", "")) and rect.get("height") != "12.0"
    ]


def words(root: Element) -> list[str]:
    return [text.text for text in root.iter(f"{SVG}text")]


def hanging() -> Evidence:
    ranks = (
        RankEvidence(0, "ended", calls=(call(0.1, 0.2), call(0.2, None, "barrier", line=9))),
        RankEvidence(1, "raised", raised=Raised("ValueError", "x", 7, ""), calls=(call(0.1, 0.2),)),
    )
    return Evidence(2, ranks, 0.6, Diagnosis("raised", "rank 1 raised ValueError", (1,)))


def test_the_call_that_failed_has_an_edge_and_a_cross() -> None:
    waits = (call(0.1, 0.2), call(0.2, None, "barrier", index=2))
    ranks = (RankEvidence(0, "ended", calls=waits), RankEvidence(1, "returned"))
    root = drawn(Evidence(2, ranks, 0.6, Diagnosis("hang", "rank 0 waits in barrier", (1,))))
    failed = [rect for rect in root.iter(f"{SVG}rect") if rect.get("class") == "failed"]
    assert [rect.get("stroke-dasharray") for rect in failed] == ["4 3"]
    assert words(root).count("✗") == 1


def test_inside_a_page_it_takes_the_colour_of_the_page() -> None:
    svg = launch_svg(hanging(), "With 2 ranks", inside=True)
    assert "currentColor" in svg
    style = svg.partition("<style>")[2].partition("</style>")[0]
    rules = [rule for rule in style.replace("}", "}\n").splitlines() if "{" in rule]
    assert all(rule.startswith(".hpml-calls") for rule in rules)


def test_a_row_per_rank_says_how_it_ended_and_names_the_cause() -> None:
    root = drawn(hanging())
    said = words(root)
    assert "stuck in barrier, line 9" in said
    assert "raised ValueError" in said
    kinds = [rect.get("class") for rect in root.iter(f"{SVG}rect") if rect.get("class")]
    assert kinds == ["lane", "cause"]
    dashed = [rect for rect in root.iter(f"{SVG}rect") if rect.get("stroke-dasharray")]
    assert len(dashed) == 1
    assert min(float(bar.get("fill-opacity", 1)) for bar in bars(root)) == STUCK


def test_a_bar_is_as_long_as_its_call() -> None:
    calls = (call(0.0, 0.1), call(0.1, 0.4), call(0.4, 0.5))
    found = bars(drawn(Evidence(1, (RankEvidence(0, "returned", calls=calls),), 0.5)))
    widths = [float(rect.get("width")) for rect in found]
    assert widths[1] == max(widths)
    assert math.isclose(widths[1], 3 * widths[0], rel_tol=0.02)
    assert math.isclose(sum(widths), WIDTH - LEFT - RIGHT, rel_tol=0.01)


def test_the_part_in_flight_is_pale() -> None:
    calls = (call(0.0, 0.4, waited=0.3), call(0.4, 0.5, waited=0.4))
    pale, full, _ = bars(drawn(Evidence(1, (RankEvidence(0, "returned", calls=calls),), 0.5)))
    assert float(pale.get("fill-opacity")) < 0.5
    assert full.get("fill-opacity") is None
    assert math.isclose(float(pale.get("width")), 3 * float(full.get("width")), rel_tol=0.02)


def test_calls_in_flight_at_once_do_not_cover_each_other() -> None:
    calls = (call(0, 0.4), call(0.1, 0.5), call(0.45, 0.6))
    found = bars(drawn(Evidence(1, (RankEvidence(0, "returned", calls=calls),), 0.6)))
    first, second, third = (float(rect.get("y")) for rect in found)
    assert first + float(found[0].get("height")) <= second
    assert third == first


def test_making_the_group_is_not_drawn_and_does_not_count() -> None:
    calls = (call(0.0, 30.0, "init_process_group"), call(30.0, 30.5, "barrier"))
    root = drawn(Evidence(1, (RankEvidence(0, "returned", calls=calls),), 30.5))
    assert len(bars(root)) == 1
    assert "time (ms)" in words(root)
    assert "all_reduce" not in words(root)


def test_long_launches_are_drawn_in_seconds_and_marks_are_named_once() -> None:
    marks = (Mark("begin", 0.1), Mark("end", 20.0))
    row = RankEvidence(0, "returned", calls=(call(0.0, 30.0),), marks=marks)
    root = drawn(Evidence(2, (row, row), 30.0))
    assert "time (s)" in words(root)
    lines = [line for line in root.iter(f"{SVG}line") if line.get("class") == "mark"]
    assert len(lines) == 4
    assert (words(root).count("begin"), words(root).count("end")) == (1, 1)


def test_of_many_calls_the_last_are_drawn_and_that_is_said() -> None:
    calls = tuple(call(k / 1000, k / 1000 + 0.0005) for k in range(5000))
    ranks = tuple(RankEvidence(rank, "returned", calls=calls) for rank in range(8))
    picture = launch_svg(Evidence(8, ranks, 5.0), "many")
    assert len(picture) < 100_000
    root = ElementTree.fromstring(picture)
    assert len(bars(root)) == CALLS
    assert f"the last {CALLS} of 40000 calls are drawn" in words(root)


def test_a_launch_without_calls_is_a_picture_too() -> None:
    ranks = (RankEvidence(0, "returned"), RankEvidence(1, "exited", exit_code=0))
    said = words(drawn(Evidence(2, ranks, 0.1)))
    assert "no collective was called" in said
    assert "exited with 0" in said


moments = st.floats() | st.sampled_from([0.0, 1e308, -1.0, math.nan, math.inf, -math.inf])
names = st.sampled_from(HOSTILE) | st.text(st.characters(), max_size=30)


@st.composite
def launches(draw) -> Evidence:
    def a_call() -> Call:
        return call(
            draw(moments),
            draw(st.none() | moments),
            draw(names),
            waited=draw(st.none() | moments),
            line=draw(st.none() | st.integers()),
        )

    world_size = draw(st.integers(1, 20))
    ranks = tuple(
        RankEvidence(
            rank,
            draw(st.sampled_from(["returned", "raised", "exited", "killed", "ended"])),
            raised=draw(st.none() | st.builds(Raised, names, names, st.none(), names)),
            exit_code=draw(st.none() | st.integers()),
            signal=draw(st.none() | names),
            calls=tuple(a_call() for _ in range(draw(st.integers(0, 4)))),
            marks=tuple(Mark(draw(names), draw(moments)) for _ in range(draw(st.integers(0, 3)))),
        )
        for rank in range(world_size)
    )
    seconds = draw(st.floats(0, 1e6))
    return Evidence(world_size, ranks, seconds, Diagnosis("hang", draw(names), (0,)))


@settings(max_examples=150, deadline=None)
@given(launches(), names)
def test_whatever_ranks_report_the_picture_is_ours(evidence: Evidence, title: str) -> None:
    picture = launch_svg(evidence, title)
    assert len(picture) < 100_000
    root = ElementTree.fromstring(picture)
    allowed = {"svg", "title", "style", "rect", "text", "line"}
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= allowed
    assert not any(
        name.startswith("on") or "href" in name for e in root.iter() for name in e.attrib
    )
    for element in root.iter():
        for name in ("x", "y", "x1", "x2", "y1", "y2", "width", "height"):
            assert math.isfinite(float(element.get(name, 0)))
    for bar in bars(root):
        assert float(bar.get("x")) >= LEFT - 0.1
        assert float(bar.get("x")) + float(bar.get("width")) <= WIDTH - RIGHT + 0.2
