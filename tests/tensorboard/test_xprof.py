"""XProf, an optional extra: its numbers beside ours, and its page with no internet.

Where it is not installed there is nothing to test, and nothing is skipped.
"""

import collections
import importlib.util
import json
import re
from pathlib import Path

import pytest

from hpml.modules.m03_profiling.lecture import tf_data, tf_data_profiled
from hpml.notebook import tensorboard_frame
from hpml.tensorboard import browser, xprof_page

FRAME = "document.querySelector('iframe').contentDocument"
CHOOSE = f"""(() => {{
    [...{FRAME}.querySelectorAll("mat-select, .mat-select")][1].click();
    return true;
}})()"""
OPTION = f"""[...{FRAME}.querySelectorAll("mat-option, .mat-option")].find(
    each => each.textContent.trim() == "Input Pipeline Analysis")"""
# What is seen of the page's two charts, the steps' and the host's
CHARTS = f"""[...{FRAME}.querySelectorAll("input-pipeline canvas")]
    .map(canvas => document.querySelector('iframe').contentWindow.Chart.getChart(canvas))
    .filter(chart => chart.data.datasets.length)
    .map(chart => ({{
        labels: chart.data.datasets.map(each => each.label),
        legend: chart.legend.legendItems.map(each => each.text),
        sums: Object.fromEntries(chart.data.datasets.map(
            each => [each.label, each.data.reduce((total, value) => total + value, 0)])),
    }}))"""
ROWS = f"""[...{FRAME}.querySelectorAll("input-pipeline .chart-table tbody tr")]
    .map(row => [...row.cells].map(cell => cell.textContent))"""
HERE = "http://127.0.0.1"
ELSEWHERE = rb"https://\$\{domain\}|@import[^;]*https?://"

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

    def test_its_page_loads_charts_and_fonts_from_here_alone():
        static = Path(importlib.util.find_spec("xprof").origin).parent / "static"
        for name in ("index.html", "bundle.js"):
            theirs = (static / name).read_bytes()
            page = xprof_page.served(name, theirs)
            assert re.search(ELSEWHERE, theirs)
            assert not re.search(ELSEWHERE, page)
        assert xprof_page.served("index.html", b"<html>") == b"<html>"  # of another version

    def test_with_no_internet_input_pipeline_analysis_is_whole(needs, recorded):
        chromium, (folder, found) = needs("chromium"), recorded
        served = tensorboard_frame._start(folder)
        try:
            with browser.page(chromium) as page:
                page.size(1400, 1600)
                page.open(f"http://127.0.0.1:{served.port}/#profile")
                page.wait(f"{FRAME}.body.innerText.includes('Performance Summary')")
                page.wait(CHOOSE)
                page.wait(f"{OPTION} != null")
                page.value(f"{OPTION}.click()")
                page.wait(f"{FRAME}.body.innerText.includes('step time sampled is waiting')")
                page.wait(
                    f"{FRAME}.querySelectorAll('input-pipeline .chart-table tbody tr').length"
                )
                steps, host = page.value(CHARTS)
                rows = page.value(ROWS)
                elsewhere = [one for one in page.requested if not one.startswith(HERE)]
                assert page.errors == elsewhere == []
        finally:
            served.process.kill()
            served.process.wait()
        assert steps["sums"]["Input"] > 0
        assert steps["legend"] == [name for name in steps["labels"] if steps["sums"][name]]
        assert sum(host["sums"].values()) == pytest.approx(100)
        calls = collections.Counter()
        for name, count, *_ in rows:  # "…::ForeverRepeat[1]::Shuffle" is its first round
            calls[re.sub(r"\[\d+\]", "", name)] += int(count.replace(",", ""))
        assert {one.path: calls[one.path] for one in found.stages} == {
            one.path: one.calls for one in found.stages
        }
        shares = [float(row[5].removesuffix("%")) for row in rows]
        assert sum(shares) == pytest.approx(100, abs=0.1 * len(rows))
