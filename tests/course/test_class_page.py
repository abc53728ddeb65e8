"""The page of a class: whole, escaped, renews itself, loads nothing; and served to us alone."""

import http.client
import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from hpml.course import schedule
from hpml.course.class_record import ENDING
from hpml.course.instructors import class_folder, class_now, class_page, class_server
from hpml.course.instructors.class_now import Now, Planned
from hpml.course.instructors.class_server import PageServer
from hpml.course.instructors.run_sheet import Mistake
from hpml.errors import UserError

from ..page_elements import Elements

NOW = datetime(2026, 11, 29, 14, 0, tzinfo=timezone.utc)
COURSE = schedule.load()
PLAN = [Planned(exercise, 13 * 60 + 54, 14 * 60 + 19) for exercise in COURSE.core]
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'`<b>`{{ 7*7 }}[red]"


def now_of(folder: Path, *rows: dict[str, object]) -> Now:
    """The class whose learners have recorded one row each."""
    for number, row in enumerate(rows):
        base = {"at": "2026-11-29T13:40:00Z", "exercise": "ddp", "status": "failed"}
        base |= {"cause": "claims", "holds": 1, "claims": 3, "earned": 2, "points": 6}
        path = folder / f"{number:08x}-00000001{ENDING}"
        path.write_text(json.dumps(base | row) + "\n")
    recorded = class_folder.read(folder, COURSE, NOW)
    return class_now.look(
        COURSE, PLAN, recorded, lambda *_: Mistake("adds `x` <i>", "Say it."), NOW
    )


def test_a_page_has_who_is_where_and_what_to_say(tmp_path):
    now = now_of(
        tmp_path,
        {"claim": "gradients are averaged", "hint": "weights", "hints": 2, "name": "Ada"},
        {"claim": "gradients are averaged", "hint": "weights", "at": "2026-11-29T13:59:00Z"},
        {"status": "passed", "holds": 3},
    )
    page = Elements(class_page.write(COURSE, now, 5))
    assert page.title == "The class at 14:00"
    for words in (
        "3 learners, 3 at work. By the clock 0 of 16",
        "2 on ddp : gradients are averaged",
        "Often they wrote: adds x <i>",
        "Say: Say it.",
        "On one claim for 10 minutes and more: 1",
        "20 min Ada ddp : gradients are averaged 1 check, 2 hints read, last 20 min ago",
        "1 done, 2 on it",
        "not marks, and no mark is made of them",
    ):
        assert words in page.folded
    states = [a["class"] for tag, a in page.elements if tag == "td" and "title" in a]
    assert sorted(states) == ["done", "long", "on-it"]


def test_it_renews_itself_runs_nothing_and_loads_nothing(tmp_path):
    text = class_page.write(COURSE, now_of(tmp_path, {"claim": "x"}), 5.0)
    elements = Elements(text).elements
    metas = [attributes for tag, attributes in elements if tag == "meta"]
    assert {"http-equiv": "refresh", "content": "5"} in metas
    assert any("default-src 'none'" in each.get("content", "") for each in metas)
    assert not {"script", "link", "iframe", "img", "a", "base", "form"} & {
        tag for tag, _ in elements
    }
    assert not [a for _, a in elements if {"src", "href", "onclick", "onerror"} & a.keys()]
    assert "url(" not in text
    assert "http://" not in text.replace("http-equiv", "")
    assert "https://" not in text


def test_whatever_a_file_says_is_text_on_the_page(tmp_path):
    now = now_of(
        tmp_path,
        {"claim": HOSTILE, "name": HOSTILE[:40]},
        {"claim": HOSTILE, "name": "<b>Bob</b>"},
        {"claim": HOSTILE, "name": '" onclick="x'},
        {"cause": HOSTILE[:40], "hint": HOSTILE[:40]},
    )
    text = class_page.write(COURSE, now, 5)
    page = Elements(text)
    tags = [tag for tag, _ in page.elements]
    assert "script" not in tags
    assert "img" not in tags
    assert "b" not in {tag for tag, a in page.elements} - {"b"} or tags.count("b") == len(
        now.missed
    )
    assert "alert(1)</script>" in page.folded
    assert "<b>Bob</b>" in page.text
    assert "{{ 7*7 }}" in page.text
    assert not [a for _, a in page.elements if any(name.startswith("on") for name in a)]


def test_an_empty_class_has_a_page_too(tmp_path):
    page = Elements(class_page.write(COURSE, now_of(tmp_path), 5))
    assert "0 learners" in page.folded
    assert "no check has been recorded yet" in page.folded
    assert "Not read" not in page.folded


def test_what_was_not_read_is_counted_and_a_fault_is_no_secret(tmp_path):
    now = replace(now_of(tmp_path, {}), ignored=1, unread=2, fault="the server is gone")
    page = Elements(class_page.write(COURSE, now, 5))
    assert "Not read: 1 line and 2 files, too long, cut short" in page.folded
    assert "This is how it was at 14:00:00. the server is gone" in page.folded


@pytest.fixture
def server() -> Iterator[PageServer]:
    with class_server.serving(0) as server:
        server.page = "<p>✓</p>".encode()
        yield server


def asked(server: PageServer, path: str = "/", host: str = "") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=3)
    connection.request("GET", path, headers={"Host": host or f"localhost:{server.server_port}"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def test_the_page_is_served_as_it_is_now_and_nothing_else_is(server):
    assert asked(server) == (200, "<p>✓</p>".encode())
    server.page = b"later"
    assert asked(server)[1] == b"later"
    assert asked(server, "/etc/passwd")[0] == 404
    assert asked(server, "/../../etc/passwd")[0] == 404


def test_it_listens_on_loopback_alone_and_to_its_own_name_alone(server):
    assert server.server_address[0] == "127.0.0.1"
    assert asked(server, host=f"127.0.0.1:{server.server_port}")[0] == 200
    assert asked(server, host="localhost:8899")[0] == 200  # through a tunnel of ssh
    assert asked(server, host="evil.example:80")[0] == 403


def test_a_client_that_says_nothing_keeps_nobody_waiting(server):
    with socket.create_connection(("127.0.0.1", server.server_port)):
        assert asked(server)[0] == 200


def test_a_port_that_is_taken_is_one_line(server):
    with (
        pytest.raises(UserError, match=r"--port \d+: Address already in use: name another"),
        class_server.serving(server.server_port),
    ):
        pass
