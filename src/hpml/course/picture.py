"""The pictures in a notebook's outputs: as data: addresses, for pages that load nothing, and with
fewer bytes."""

import base64
import io
import re
from collections.abc import Mapping, Sequence

from nbformat import NotebookNode

KINDS = ("image/svg+xml", "image/png", "image/jpeg", "image/gif", "image/webp")
SMALL_COLOURS, COLOURS = 64, 256  # in a small picture, in any; a plot's text has many greys


def address(data: Mapping[str, str | Sequence[str]]) -> str:
    """The picture in an output's data (nbformat: content by MIME type); "" where there is none."""
    for kind in KINDS:
        if kind in data:
            content = "".join(data[kind])
            if kind == "image/svg+xml":  # the only one that a notebook holds as text
                content = base64.b64encode(content.encode()).decode()
            content = re.sub(r"\s", "", content)
            return f"data:{kind};base64,{content}"
    return ""


def small(picture: str, width: int) -> str:
    """The same picture with at most `width` pixels in a row, if its `address` is that of a PNG."""
    from PIL import Image

    start = "data:image/png;base64,"
    if not picture.startswith(start):
        return picture
    image = Image.open(io.BytesIO(base64.b64decode(picture.removeprefix(start)))).convert("RGB")
    image.thumbnail((width, width * 2))
    content = io.BytesIO()
    image.quantize(SMALL_COLOURS).save(content, "PNG", optimize=True)
    return start + base64.b64encode(content.getvalue()).decode()


def lighten(notebook: NotebookNode) -> None:
    """Give every PNG in the outputs a palette of 256 colours, which is a third of the bytes.

    A picture that has one already, or that lets its background shine through, stays as it is.
    """
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                data["image/png"] = _with_palette("".join(data["image/png"]))


def _with_palette(encoded: str) -> str:
    from PIL import Image

    image = Image.open(io.BytesIO(base64.b64decode(encoded)))
    if image.mode == "P" or image.convert("RGBA").getextrema()[3] != (255, 255):
        return encoded
    content = io.BytesIO()
    image.convert("RGB").quantize(COLOURS).save(content, "PNG", optimize=True)
    return base64.b64encode(content.getvalue()).decode()
