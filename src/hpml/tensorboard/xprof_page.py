"""XProf's plugin, an optional extra, with the same page and nothing from the internet.

Its page loads a chart library and a font from elsewhere. As served here, the library is this
package's, and the font is left out; nothing of the installed plugin is changed.
"""

import re

from tensorboard.plugins import base_plugin

from hpml.tensorboard.plugin import CHARTS, HERE

# In the order in which the page runs them; the last one takes the place of the page's loader
OURS = (
    *(name for name in CHARTS if name not in ("timeline.js", "namespace.js")),
    *("data_view.js", "stacked.js", "namespace_xprof.js"),
)
LOADER = "`https://${domain}/charts/loader.js`"
BEFORE = '<script src="zone.js"></script>'
FONT = re.compile(rb'@import ?"https://fonts\.googleapis\.com/[^"]*";')


def served(name: str, content: bytes) -> bytes:
    """A file of XProf's page, without what it loads from elsewhere.

    The page of a version that loads its charts in another way stays as it is.
    """
    if name != "index.html":
        return FONT.sub(b"", content) if name.endswith((".js", ".css")) else content
    text = content.decode("utf-8")
    if LOADER not in text or BEFORE not in text:
        return content
    ours = '<link rel="stylesheet" href="charts.css">'
    ours += "".join(f'<script src="{each}"></script>' for each in OURS[:-1])
    return text.replace(LOADER, f"'{OURS[-1]}'").replace(BEFORE, BEFORE + ours, 1).encode()


def loader() -> type[base_plugin.TBLoader]:
    """What TensorBoard loads the plugin with. Raises ImportError where XProf is not installed."""
    from xprof import profile_plugin, profile_plugin_loader

    class OfflineXProf(profile_plugin.ProfilePlugin):
        def get_plugin_apps(self) -> dict:
            own = (*OURS, "charts.css")
            return super().get_plugin_apps() | {f"/{n}": self.static_file_route for n in own}

        def _read_static_file_impl(self, filename: str) -> bytes:
            if filename in (*OURS, "charts.css"):
                return (HERE / filename).read_bytes()
            return served(filename, super()._read_static_file_impl(filename))

    class OfflineLoader(profile_plugin_loader.ProfilePluginLoader):
        def load(self, context: base_plugin.TBContext) -> base_plugin.TBPlugin | None:
            return OfflineXProf(context) if super().load(context) else None

    return OfflineLoader
