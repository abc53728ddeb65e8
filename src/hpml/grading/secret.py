"""A class's secret, and the seeds that follow from it.

    OUT/secret    32 random bytes in hexadecimal digits, which only the instructor may read

No record, page or export has the secret or a seed. Work that was changed has other inputs, whatever
was learnt from the feedback on it.
"""

import hmac
import secrets
from pathlib import Path

from hpml.errors import UserError
from hpml.files import atomic

FILE = "secret"
BYTES = 32


def of_folder(out: Path) -> bytes:
    """The secret of the grading in `out`, drawn when it is first asked for. Raises UserError."""
    path = out / FILE
    try:
        atomic.create(path, f"{secrets.token_hex(BYTES)}\n".encode(), private=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None
    return read(out)


def read(out: Path) -> bytes:
    """The secret of a grading. Raises UserError if it is missing or damaged."""
    path = out / FILE
    try:
        secret = bytes.fromhex(path.read_text())
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "not hexadecimal digits"
        raise UserError(f"{path}: the class's secret cannot be read: {why}") from None
    if len(secret) != BYTES:
        raise UserError(f"{path}: the class's secret has {len(secret)} bytes, expected {BYTES}")
    return secret


def seed(secret: bytes, person: str, exercise: str, digest: str) -> int:
    """The seed of one exercise's inputs, in [0, 2**62), for one person's submission of `digest`.

    HMAC-SHA256 (RFC 2104): without the secret, it follows from no other seed.
    """
    text = "\0".join((person, exercise, digest)).encode()
    return int.from_bytes(hmac.digest(secret, text, "sha256"), "big") % 2**62
