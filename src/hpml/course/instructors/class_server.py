"""One page, on this machine alone: 127.0.0.1, at a port that is free.

Whoever can log in here can read it. It has what every learner can read in the class's folder.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from hpml.errors import UserError

HERE = "127.0.0.1"
_NAMES = (HERE, "localhost")  # else another site's name may lead a browser to it (DNS rebinding)


class PageServer(ThreadingHTTPServer):
    """Serves `page`, which may be replaced at any time."""

    daemon_threads = True
    page = b""

    @property
    def address(self) -> str:
        return f"http://{HERE}:{self.server_port}/"


@contextmanager
def serving(port: int) -> Iterator[PageServer]:
    """A server at `port` (0: one that is free). Raises UserError if it is taken or not allowed."""
    try:
        server = PageServer((HERE, port), _Handler)
    except OSError as error:
        raise UserError(f"--port {port}: {error.strerror}: name another, or leave it out") from None
    with server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    timeout = 5.0  # seconds in which a request is to be here
    server: PageServer

    def do_GET(self) -> None:
        if self.headers.get("Host", "").rpartition(":")[0] not in _NAMES:
            self.send_error(403)
        elif self.path != "/":
            self.send_error(404)
        else:
            page = self.server.page
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(page)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(page)

    def log_message(self, format: str, *args: object) -> None:
        """The terminal shows the class, and no requests."""
