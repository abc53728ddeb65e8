"""This node's picture is lstopo's where there is one, and the library's own where not."""

import sys

import numpy as np
import pytest
from matplotlib import image

from hpml.machine.topology import read
from hpml.modules.m02_hardware.lecture.lstopo import draw_node
from hpml.modules.m02_hardware.lecture.topology_picture import WIDTH


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Puts a program in lstopo's place, alone on PATH; it gets the words of its command in
    `words`."""

    def make(lines: str) -> None:
        (tmp_path / "lstopo").write_text(f"#!{sys.executable}\nimport sys\n{lines}\n")
        (tmp_path / "lstopo").chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path))
    return make


def pixels(figure) -> np.ndarray | None:
    return figure.axes[0].images[0].get_array() if figure.axes[0].images else None


@pytest.mark.parametrize("width", [300, 6000])
def test_what_lstopo_draws_is_shown(fake, tmp_path, width):
    image.imsave(tmp_path / "drawn.png", np.zeros((120, width, 3)))
    fake(
        f"import shutil; shutil.copy({str(tmp_path / 'drawn.png')!r}, sys.argv[-1])\n"
        f"open({str(tmp_path / 'words')!r}, 'w').write(' '.join(sys.argv[1:-1]))"
    )
    figure = draw_node()
    assert pixels(figure).shape[:2] == (120, width)
    assert figure.get_size_inches()[0] <= WIDTH
    assert figure.axes[0].get_title("left") == f"{read().sentence()}, by lstopo"
    assert "--no-legend" in (tmp_path / "words").read_text()  # the host's name


@pytest.mark.parametrize(
    "lines",
    [
        "sys.exit('file format not supported')",
        "open(sys.argv[-1], 'w').write('no picture')",
        "pass",
    ],
)
def test_an_lstopo_that_draws_no_picture_is_done_without(fake, lines):
    fake(lines)
    figure = draw_node()
    assert pixels(figure) is None
    assert figure.axes[0].get_title("left") == read().sentence()


def test_without_lstopo_the_library_draws(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pixels(draw_node()) is None
