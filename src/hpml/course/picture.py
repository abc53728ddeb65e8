"""The picture of a notebook's output, as a data: address, for pages that load nothing."""

import base64
import io
import re
from collections.abc import Mapping, Sequence

KINDS = ("image/svg+xml", "image/png", "image/jpeg", "image/gif", "image/webp")
COLOURS = 64  # enough for a plot, and a third of the bytes


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
    image.quantize(COLOURS).save(content, "PNG", optimize=True)
    return start + base64.b64encode(content.getvalue()).decode()
