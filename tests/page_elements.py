"""A page of HTML as its elements and its words, for tests of what was written into it."""

import html.parser


class Elements(html.parser.HTMLParser):
    """All elements of a page with their attributes, its title, and its text without styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.title = ""
        self._inside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attributes}))
        self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._inside[-1:] == ["title"]:
            self.title += data
        elif "style" not in self._inside:
            self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)

    @property
    def folded(self) -> str:
        """The text in one line, with a blank between elements and in place of any white space."""
        return " ".join(" ".join(self.words).split())
