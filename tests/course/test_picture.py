"""The picture of an output: found, whatever its kind, and made small for paper."""

import base64
import io

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
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


def lightened(image: Image.Image) -> tuple[Image.Image, bool]:
    """The image as a notebook has it after `lighten`, and whether its bytes changed."""
    content = io.BytesIO()
    image.save(content, "PNG")
    encoded = base64.b64encode(content.getvalue()).decode()
    output = new_output("display_data", {"image/png": encoded, "text/plain": "a picture"})
    notebook = new_notebook(cells=[new_code_cell("draw()", outputs=[output])])
    picture.lighten(notebook)
    after = notebook.cells[0].outputs[0].data
    assert after["text/plain"] == "a picture"
    drawn = Image.open(io.BytesIO(base64.b64decode(after["image/png"])))
    return drawn, after["image/png"] != encoded


def test_a_picture_has_a_palette_after_which_it_stays_as_it_is():
    image = Image.new("RGBA", (60, 40), "white")
    image.paste((200, 30, 40, 255), (10, 10, 50, 20))
    light, changed = lightened(image)
    assert (light.mode, light.size, changed) == ("P", (60, 40), True)
    assert light.convert("RGBA").tobytes() == image.tobytes()
    assert lightened(light)[1] is False


def test_a_transparent_picture_stays_as_it_is():
    assert lightened(Image.new("RGBA", (6, 4), (255, 255, 255, 0)))[1] is False
