"""The plugin of torch_tb_profiler, with the same page and views, and nothing from the internet.

Its page loads a chart library, and its trace viewer an emulation of HTML imports, from elsewhere.
As served here, those two lines of the pages name files of this package; nothing of the installed
plugin is changed.
"""

import mimetypes
import sys
import tempfile
import threading
from collections import OrderedDict
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import werkzeug
from tensorboard.plugins import base_plugin
from torch_tb_profiler import io, plugin
from werkzeug import exceptions, wrappers

from hpml.errors import UserError
from hpml.tensorboard import run_loading
from hpml.tensorboard.difference import align

HERE = Path(__file__).parent / "page"
THEIRS = Path(plugin.__file__).parent / "static"
# In the order in which the page runs them
CHARTS = (
    "chart.umd.min.js",
    "data_table.js",
    "events.js",
    "words.js",
    "colours.js",
    "canvas_chart.js",
    "zoom.js",
    "charts.js",
    "table.js",
    "timeline.js",
    "namespace.js",
)
VIEWER = ("webcomponents.min.js",)
# Page of the plugin: the line in it that goes elsewhere, and what stands there instead
APP = '<div id="app"></div>'
INSTEAD = {
    "index.html": (
        '<script src="https://www.gstatic.com/charts/loader.js"></script>',
        '<link rel="stylesheet" href="charts.css">'
        + "".join(f'<script src="{name}"></script>' for name in CHARTS),
    ),
    "trace_embedding.html": (
        "https://cdnjs.cloudflare.com/ajax/libs/webcomponentsjs/0.7.24/webcomponents.min.js",
        VIEWER[0],
    ),
}
ENDING = threading.Event()  # the server is about to end
LOOK_AGAIN = 5.0  # seconds between looks into the folder


def served_page(name: str) -> bytes:
    """A page of the plugin, without its line that loads something from elsewhere.

    Raises UserError where the line is not in it: another version of the plugin.
    """
    text = (THEIRS / name).read_text(encoding="utf-8")
    elsewhere, here = INSTEAD[name]
    if elsewhere not in text:
        raise UserError(f"torch_tb_profiler's {name} is not that of 0.4.3: pip install hpml again")
    note = (HERE / "note.html").read_text(encoding="utf-8")
    return text.replace(elsewhere, here, 1).replace(APP, APP + note, 1).encode()


class OfflineProfilerPlugin(plugin.TorchProfilerPlugin):
    """The profiler's views. Folders are looked through again and again, as a run goes on."""

    def __init__(self, context: base_plugin.TBContext) -> None:
        # In place of the parent's: that starts a process just for a cache of remote files.
        base_plugin.TBPlugin.__init__(self, context)
        self.logdir = io.abspath(context.logdir.rstrip("/"))
        self._load_lock, self._runs_lock = threading.Lock(), threading.Lock()
        self._load_threads: list[threading.Thread] = []
        self._runs: OrderedDict = OrderedDict()
        self._gpu_metrics_file_dict: dict[str, str] = {}
        self.diff_run_cache: dict = {}
        self.diff_run_flatten_cache: dict = {}
        self._folder = tempfile.TemporaryDirectory(prefix="hpml-tensorboard-")
        self._temp_dir = self._folder.name
        self._cache = LocalFiles()
        self._pool = run_loading.pool()
        self._pages = {name: served_page(name) for name in INSTEAD}
        thread = threading.Thread(target=self._watch, name="profiles", daemon=True)
        self._load_threads.append(thread)  # the page asks again while something is being read
        thread.start()

    def get_plugin_apps(self) -> dict:
        """The parent's routes, and one for each file that stands in for one from elsewhere."""
        own = (*CHARTS, *VIEWER, "charts.css")
        return super().get_plugin_apps() | {f"/{name}": self.static_file_route for name in own}

    @wrappers.Request.application  # type: ignore[arg-type]  # it takes methods too
    def static_file_route(self, request: werkzeug.Request) -> werkzeug.Response:
        """A page or a script: the plugin's, or the one that stands in for it."""
        name = Path(request.path).name
        if name in self._pages:
            content = self._pages[name]
        elif (HERE / name).is_file():
            content = (HERE / name).read_bytes()
        else:
            content = (THEIRS / name).read_bytes()
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return werkzeug.Response(content, content_type=kind, headers=self.headers)

    @wrappers.Request.application  # type: ignore[arg-type]  # it takes methods too
    def diff_run_node_route(self, request: werkzeug.Request) -> werkzeug.Response:
        """A part of two runs: the parent's answer with operators beside themselves."""
        path = request.args.get("path", "0")
        node = self.get_diff_stats_dict(*self.get_diff_runs(request)).get(path)
        if node is None:
            raise exceptions.NotFound(f"no part {path} of these runs")
        return self.respond_as_json(align(node.get_diff_node_summary(path)), True)

    def _watch(self) -> None:
        """Read each folder that has traces, and read it anew when its traces change."""
        seen: dict[str, tuple] = {}
        while not ENDING.is_set():
            for folder in self._folders():
                files = run_loading.trace_files(folder)
                state = tuple((f.path.name, f.path.stat().st_mtime_ns) for f in files)
                if state != seen.get(str(folder)):
                    seen[str(folder)] = state
                    self._read(folder)
            with self._load_lock:
                self._load_threads.clear()
            ENDING.wait(LOOK_AGAIN)

    def _folders(self) -> list[Path]:
        return sorted({Path(root) for root in self._get_run_dirs()})

    def _read(self, folder: Path) -> None:
        name = self._get_run_name(str(folder))
        try:
            run = run_loading.FolderLoader(name, str(folder), self._pool).load()
        except BrokenProcessPool:
            if not ENDING.is_set():
                print(
                    f"{folder}: not shown: its process ended (too little memory?)",
                    file=sys.stderr,
                    flush=True,
                )
                self._pool = run_loading.pool()
            return
        with self._runs_lock:
            if run is not None:
                self._runs[name] = run
                self._runs = OrderedDict(sorted(self._runs.items()))
                self.diff_run_cache.clear()
                self.diff_run_flatten_cache.clear()


class LocalFiles:
    """In place of the plugin's cache of remote files, which would be a process of its own."""

    def read(self, name: str) -> bytes:
        """The file's content."""
        return Path(name).read_bytes()
