"""Events that strict JSON refuses, and what can be read of them.

Profilers have written each of these: a name with quotes in it, which Kineto does not escape
(PyTorch 2.13, record_function('stage "A"')); numbers as C++ prints them, inf and nan, and "N/A"
(https://github.com/pytorch/kineto/issues/105); a path with backslashes (336); bytes that are
not UTF-8 (80). A text is put right only as far as no field that is used changes.
"""

import re
from collections.abc import Iterator

import numpy as np

# Kineto and TensorFlow begin each event with its kind, or with its name.
_START = re.compile(rb'\{\s*"(?:ph|name)"\s*:')
_LIST_ENDS = re.compile(rb"\}\s*(\])\s*(?=[,}]|$)")
_NO_NUMBER = re.compile(r"(:\s*)[-+]?(?:inf(?:inity)?|nan|n/a)(?=\s*[,}\]])", re.IGNORECASE)
_NO_ESCAPE = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_TEXT = re.compile(r'^(\s*"[^"\n]+": ")(.*)(",?\s*)$', re.MULTILINE)
_QUOTE = re.compile(r'(?<!\\)"')

_DEEPER = np.zeros(256, np.int8)
_DEEPER[[ord("{"), ord("[")]] = 1
_DEEPER[[ord("}"), ord("]")]] = -1
_STRUCTURE = _DEEPER != 0
_STRUCTURE[ord('"')] = True


def structure(text: bytes) -> tuple[np.ndarray, int]:
    """Where each event in `text` ends, int64 [n]; and where the list of events does, or -1.

    `text` begins in the list, between two events.
    """
    if b"\\" in text:
        # Same length, without escapes: a quote that is left begins or ends a string.
        text = text.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
    characters = np.frombuffer(text, np.uint8)
    places = np.flatnonzero(_STRUCTURE[characters])
    found = characters[places]
    quote = found == ord('"')
    in_string = np.cumsum(quote, dtype=np.int32) % 2 == 1
    deeper = np.where(in_string | quote, 0, _DEEPER[found])
    depth = np.cumsum(deeper, dtype=np.int32)
    closing = np.flatnonzero((depth == -1) & (deeper == -1))
    until = closing[0] if len(closing) else len(places)
    ends = np.flatnonzero((depth[:until] == 0) & (deeper[:until] == -1))
    return places[ends] + 1, int(places[until]) if len(closing) else -1


def by_structure(text: bytes) -> Iterator[tuple[int, bytes]]:
    """(place, event) of all events that end in `text`, by their braces."""
    begin = 0
    for end in structure(text)[0].tolist():
        event = text[begin:end].lstrip(b" \t\r\n,")
        yield end - len(event), event
        begin = end


def by_beginning(text: bytes) -> Iterator[tuple[int, bytes]]:
    """(place, event) by how an event begins, where quotes or braces cannot be trusted."""
    begins = [match.start() for match in _START.finditer(text)]
    for begin, end in zip(begins, [*begins, len(text)][1:], strict=True):
        yield begin, text[begin:end].rstrip(b" \t\r\n,")


def list_ends(text: bytes, begin: int) -> int:
    """Where the list of events ends, whose last event begins at `begin`; or -1."""
    found = _LIST_ENDS.search(text, begin)
    return found.start(1) if found else -1


def put_right(event: bytes) -> Iterator[bytes]:
    """The text of one event as JSON, if it can be: first without its quotes being touched."""
    text = event.decode("utf-8", errors="replace")
    text = _NO_ESCAPE.sub(r"\\\\", _NO_NUMBER.sub(r"\1null", text))
    yield text.encode()
    yield _TEXT.sub(lambda m: m[1] + _QUOTE.sub(r"\"", m[2]) + m[3], text).encode()
