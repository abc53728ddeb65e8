"""One executed notebook as parts of a page: HTML that is safe and self-contained.

No output can run a script: HTML passes an allow list, SVG is shown as an image, text is escaped.
TeX is converted to MathML, which browsers draw without a script. Images are embedded in the page;
remote ones are left out.
"""

import base64
import mimetypes
import os
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from xml.etree import ElementTree

import nh3
from IPython.lib.lexers import IPython3Lexer
from latex2mathml.converter import convert_to_element
from markupsafe import Markup, escape
from mistune import HTMLRenderer
from nbconvert.filters import ansi2html
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import BashLexer

from hpml.course import folded, picture
from hpml.course.execute import CellRun, NotebookRun
from hpml.publish import RESULT, SKIP, VERDICT

_ATTRIBUTES = {
    **{f"h{level}": {"id"} for level in range(1, 7)},
    **{cell: {"align", "colspan", "rowspan", "scope", "style"} for cell in ("td", "th")},
    **{tag: {"style"} for tag in ("div", "p", "table", "tr", "pre")},
    "span": {"style", "class"},
    "a": {"href", "title"},
    "img": {"src", "alt", "title", "width", "height"},
    "details": {"open"},
    "ol": {"start"},
}
_TAGS = {
    *_ATTRIBUTES,
    "abbr", "b", "blockquote", "br", "caption", "code", "col", "colgroup", "dd", "del", "dl", "dt",
    "em", "hr", "i", "ins", "kbd", "li", "mark", "s", "samp", "small", "strong", "sub", "summary",
    "sup", "tbody", "tfoot", "thead", "u", "ul", "var",
}  # fmt: skip
_STYLES = {"text-align", "font-weight", "font-style", "white-space", "width", "vertical-align"}
_FORMATTER = HtmlFormatter(nowrap=True)


@dataclass(frozen=True)
class Output:
    """One output of a cell as safe HTML. `kind` selects the template's frame."""

    kind: str  # "html", "picture", "text", "stderr", "error", "verdict", "result", "skip"
    body: Markup | None = None
    record: dict[str, Any] | None = None  # of a verdict, a result or a skip


@dataclass(frozen=True)
class Cell:
    """One cell as safe HTML: prose, or code with its outputs and its outcome."""

    index: int
    prose: Markup | None = None
    code: Markup | None = None
    outputs: tuple[Output, ...] = ()
    run: CellRun | None = None
    folded: bool = False  # its code is not shown until its reader asks for it


def cells(run: NotebookRun, link: Callable[[str], str]) -> list[Cell]:
    """All cells of an executed notebook. `link` maps the target of a relative link.

    The target includes its fragment; addresses with a scheme are not changed.
    """
    runs = {cell.index: cell for cell in run.cells}
    shown = []
    for index, cell in enumerate(run.notebook.cells):
        if cell.cell_type == "markdown":
            prose = _markdown(cell.source, run.path.parent, link, cell.get("attachments", {}))
            shown.append(Cell(index, prose=prose))
        elif index in runs:
            outputs = tuple(
                output
                for raw in cell.outputs
                if (output := _output(raw, run.path.parent, link)) is not None
            )
            code, hidden = _code(cell.source), folded.is_folded(cell)
            shown.append(Cell(index, code=code, outputs=outputs, run=runs[index], folded=hidden))
    return shown


def sanitized(html: str) -> Markup:
    """Untrusted HTML without elements that could run, load files or cover the page."""
    return Markup(
        nh3.clean(
            html,
            tags=_TAGS,
            clean_content_tags={"script", "style", "iframe", "object", "template", "noscript"},
            attributes=_ATTRIBUTES,
            attribute_filter=_only_local,
            filter_style_properties=_STYLES,
            url_schemes={"http", "https", "mailto", "data"},
            link_rel="noreferrer",
        )
    )


def markdown(source: str, folder: Path, link: Callable[[str], str]) -> Markup:
    """Markdown with formulas as safe HTML. Pictures are in `folder`; `link` as in `cells`."""
    return _markdown(source, folder, link, {})


def _only_local(tag: str, attribute: str, value: str) -> str | None:
    is_picture = value.startswith(tuple(f"data:{kind};" for kind in picture.KINDS))
    if attribute == "src":
        return value if is_picture else None
    if attribute == "class":
        return (
            value if re.fullmatch(r"[a-z]{1,2}\d?", value) else None
        )  # a token of highlighted code
    if attribute == "href":
        return None if value.strip().lower().startswith("data:") else value
    return value


def _output(raw: NotebookNode, folder: Path, link: Callable[[str], str]) -> Output | None:
    if raw.output_type == "stream":
        kind = "stderr" if raw.name == "stderr" else "text"
        return Output(kind, Markup(ansi2html(raw.text)))
    if raw.output_type == "error":
        text = "\n".join(raw.traceback) or f"{raw.ename}: {raw.evalue}"
        return Output("error", Markup(ansi2html(text)))
    data = raw.data
    if VERDICT in data:
        return Output("verdict", record=data[VERDICT])
    if SKIP in data:
        return Output("skip", record=data[SKIP])
    if "value" in data.get(RESULT, {}):
        return Output("result", record={"unit": "", "caption": "", **data[RESULT]})
    text = "".join(data.get("text/plain", ""))
    if shown := picture.address(data):
        return Output("picture", _picture(shown, text))
    if "text/html" in data:
        return Output("html", sanitized("".join(data["text/html"])))
    if "text/markdown" in data:
        return Output("html", _markdown("".join(data["text/markdown"]), folder, link, {}))
    if "text/latex" in data:
        return Output("html", _markdown("".join(data["text/latex"]), folder, link, {}))
    return Output("text", Markup(ansi2html(text))) if text else None


def _picture(source: str, text: str) -> Markup:
    alternative = "" if text.startswith("<") else text  # not "<Figure size 640x480 …>"
    kind = Markup(' class="drawing"') if picture.is_drawing(source) else ""
    return Markup('<img{} src="{}" alt="{}">').format(kind, source, alternative or "Figure")


def _code(source: str) -> Markup:
    """Highlighted code; a magic's line is separate, or IPython's lexer takes the cell for text."""
    first, _, rest = source.partition("\n")
    if not first.startswith("%%"):
        return Markup(highlight(source, IPython3Lexer(), _FORMATTER).rstrip("\n"))
    lexer = BashLexer() if re.match(r"%%(bash|sh)\b", first) else IPython3Lexer()
    body = highlight(rest, lexer, _FORMATTER).rstrip("\n") if rest.strip() else ""
    return Markup('<span class="magic">{}</span>\n{}').format(first, Markup(body))


def _markdown(
    source: str, folder: Path, link: Callable[[str], str], attachments: dict[str, Any]
) -> Markup:
    renderer = _Renderer(folder, link, attachments)
    html = str(sanitized(MarkdownWithMath(renderer=renderer).render(source)))
    # Formulas are inserted after sanitizing, which does not allow MathML; `_mathml` escapes them.
    for token, formula in renderer.formulas.items():
        html = html.replace(token, formula)
    return Markup(html)


def _mathml(tex: str, display: str) -> str:
    """A formula as escaped MathML; the library's own serialization does not escape."""
    formula = convert_to_element(tex, display=display)
    for element in formula.iter():
        if element.text:
            element.text = unescape(element.text)  # the library writes "&#x02212;" for a minus
        for attribute in {"href", "style"} & set(element.attrib):
            del element.attrib[attribute]
    return ElementTree.tostring(formula, encoding="unicode")


class _Renderer(IPythonRenderer):
    """Markdown to HTML with formulas set aside, pictures embedded and links mapped."""

    def __init__(
        self, folder: Path, link: Callable[[str], str], attachments: dict[str, Any]
    ) -> None:
        super().__init__(escape=False, exclude_anchor_links=True, attachments=attachments)
        self.folder, self.follow = folder, link
        self.formulas: dict[str, str] = {}
        self.secret = secrets.token_hex(8)

    def _formula(self, tex: str, display: str) -> str:
        token = f"formula{self.secret}x{len(self.formulas)}x"
        try:
            self.formulas[token] = _mathml(tex.strip(), display)
        except Exception:  # of many kinds; TeX that it cannot read is shown as text
            self.formulas[token] = str(Markup("<code>{}</code>").format(tex.strip()))
        return token

    def block_math(self, body: str) -> str:
        return self._formula(body, "block")

    def inline_math(self, body: str) -> str:
        return self._formula(body, "inline")

    def latex_environment(self, name: str, body: str) -> str:
        return self._formula(f"\\begin{{{name}}}{body}\\end{{{name}}}", "block")

    def heading(self, text: str, level: int, **attributes: Any) -> str:
        """With the id that Jupyter's own links use: the text, spaces as hyphens."""
        anchor = re.sub(r"<[^>]+>", "", text).strip().replace(" ", "-")
        return f'<h{level} id="{escape(anchor)}">{text}</h{level}>\n'

    def link(self, text: str, url: str, title: str | None = None) -> str:
        parts = urlsplit(url)
        target = url if parts.scheme or parts.netloc or not parts.path else self.follow(url)
        return HTMLRenderer.link(self, text, target, title)

    def image(self, text: str, url: str, title: str | None = None) -> str:
        if url.startswith("attachment:"):
            return super().image(text, url, title)
        path = self.folder / unquote(urlsplit(url).path)
        if urlsplit(url).scheme or not path.is_file():
            return f"<em>{escape(text)}</em>"
        kind = mimetypes.guess_type(path.name)[0] or "image/png"
        encoded = base64.b64encode(path.read_bytes()).decode()
        return str(Markup('<img src="data:{};base64,{}" alt="{}">').format(kind, encoded, text))


def relative_link(target: Path, page_folder: Path) -> str:
    """A link from a page in `page_folder` to a file of this machine, as a relative address."""
    return quote(os.path.relpath(target, page_folder))
