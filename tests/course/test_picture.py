"""The picture of an output: found, whatever its kind, and made small for paper."""

import base64
import io

import pytest
from PIL import Image

from hpml.course import picture


def png(width: int, height: int) -> str:
    content = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(content, "PNG")
    return base64.b64encode(content.getvalue()).decode()


@pytest.mark.parametrize("kind", ["image/png", "image/jpeg", "image/gif", "image/webp"])
def test_base64_may_be_in_one_piece_or_line_by_line(kind):
    for content in ("AB+/CD==", "AB+/\nCD==\n", ["AB+/\n", "CD==\n"]):
        assert picture.address({kind: content}) == f"data:{kind};base64,AB+/CD=="


def test_svg_is_text_in_a_notebook_and_comes_before_the_same_picture_in_pixels():
    address = picture.address({"image/png": png(1, 1), "image/svg+xml": ["<svg>\n", "ö</svg>"]})
    start, _, content = address.partition(",")
    assert start == "data:image/svg+xml;base64"
    assert base64.b64decode(content).decode() == "<svg>\nö</svg>"


def test_an_output_without_a_picture_has_none():
    assert picture.address({"text/plain": "3"}) == picture.address({}) == ""


def test_a_png_becomes_small_and_another_kind_stays():
    small = picture.small(picture.address({"image/png": png(300, 100)}), 30)
    assert Image.open(io.BytesIO(base64.b64decode(small.partition(",")[2]))).size == (30, 10)
    svg = picture.address({"image/svg+xml": "<svg/>"})
    assert picture.small(svg, 30) == svg
