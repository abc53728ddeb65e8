"""XProf, an optional extra: its numbers beside ours, and what its page shows with no internet.

Where it is not installed there is nothing to test, and nothing is skipped.
"""

import importlib.util
import json

import pytest

from hpml.frameworks import tf_data_profiled
from hpml.notebook import tensorboard_frame
from hpml.tensorboard import browser
from hpml.trace.profiler import tf_data

FRAME = "document.querySelector('iframe').contentDocument"
CHOOSE = f"""(() => {{
    [...{FRAME}.querySelectorAll("mat-select, .mat-select")][1].click();
    return true;
}})()"""
OPTION = f"""[...{FRAME}.querySelectorAll("mat-option, .mat-option")].find(
    each => each.textContent.trim() == "Input Pipeline Analysis")"""

if importlib.util.find_spec("xprof"):

    @pytest.fixture(scope="module")
    def recorded(tmp_path_factory):
        """A log folder with a profile of a program that waits for tf.data, and what we read."""
        folder = tmp_path_factory.mktemp("logs")
        return folder, tf_data_profiled.profile(folder)

    def test_the_share_of_waiting_is_that_of_xprof(recorded):
        from xprof.convert import raw_to_tool_data

        folder, found = recorded
        files = [str(file) for file in folder.glob("plugins/profile/*/*.xplane.pb")]
        content, _ = raw_to_tool_data.xspace_to_tool_data(files, "input_pipeline_analyzer", {})
        theirs = json.loads(content)[1]["p"]
        waiting, computing = (float(theirs[f"{k}_time_ms_avg"]) for k in ("infeed", "host_compute"))
        assert found.share == pytest.approx(waiting / (waiting + computing), abs=0.05)
        assert 1e3 * found.waiting / found.steps == pytest.approx(waiting, rel=0.1)
        assert tf_data.read(folder) == found

    def test_with_no_internet_its_page_says_how_much_is_waiting(needs, recorded):
        chromium, (folder, _) = needs("chromium"), recorded
        served = tensorboard_frame._start(folder)
        try:
            with browser.page(chromium) as page:
                page.size(1400, 1100)
                page.open(f"http://127.0.0.1:{served.port}/#profile")
                page.wait(f"{FRAME}.body.innerText.includes('Performance Summary')")
                page.wait(CHOOSE)
                page.wait(f"{OPTION} != null")
                page.value(f"{OPTION}.click()")
                page.wait(f"{FRAME}.body.innerText.includes('step time sampled is waiting')")
                assert page.errors == []
        finally:
            served.process.kill()
            served.process.wait()
