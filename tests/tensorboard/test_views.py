"""The views in a browser with no internet: they draw the numbers that the plugin answers with."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.utils.tensorboard import SummaryWriter

from hpml.tensorboard import browser
from hpml.tensorboard.views import Views

pytestmark = pytest.mark.measures  # a browser

LIMIT = 240
# Every chart on the page: its labels, and for each series its name and numbers
CHARTS = """[...document.querySelectorAll('canvas')].map(canvas => Chart.getChart(canvas)).map(
    chart => ({kind: chart.config.type, labels: chart.data.labels,
        series: chart.data.datasets.map(each => [each.label ?? null,
            each.data.map(one => one?.y !== undefined && one.x?.length === undefined
                ? [one.x, one.y] : one)])}))"""
CELLS = """[...document.querySelectorAll('%s tr')].map(
    row => [...row.cells].map(cell => cell.innerText.trim()))"""
PROGRAM = """
import sys, torch, torch.distributed as dist
from torch import nn
from torch.profiler import *
from torch.utils.data import DataLoader, TensorDataset

folder, rank, store, rounds = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
if store:
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
    model = nn.parallel.DistributedDataParallel(model)
data = DataLoader(TensorDataset(torch.randn(256, 64)), batch_size=32)
write = tensorboard_trace_handler(folder, worker_name=f"node0_{rank}", use_gzip=bool(rank))
with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=2),
             on_trace_ready=write, record_shapes=True, profile_memory=True,
             with_stack=not store) as profiler:
    for batch, in data:
        for _ in range(rounds):
            model(batch).square().mean().backward()
        profiler.step()
        if profiler.step_num == 4:
            break
if store:
    dist.destroy_process_group()
"""


def profile(folder: Path, store: str = "", rounds: int = 1) -> None:
    ranks = range(2 if store else 1)
    started = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, folder, str(rank), store, str(rounds)])
        for rank in ranks
    ]
    assert not any(each.wait(LIMIT) for each in started)


@pytest.fixture(scope="module")
def views(needs, gpu_trace, tmp_path_factory) -> Iterator[Views]:
    """The page, with one rank profiled twice, two ranks, and a GPU."""
    chromium = needs("chromium")
    folder = tmp_path_factory.mktemp("logs")
    profile(folder / "base")
    profile(folder / "double", rounds=2)
    profile(folder / "two", store=str(folder / "store"))
    with SummaryWriter(str(folder / "base")) as writer:
        writer.add_scalar("loss", 0.5, 1)
        writer.add_image("an image", torch.rand(3, 8, 8))
        writer.add_histogram("weights", torch.randn(99))
        writer.add_hparams({"lr": 0.1}, {"accuracy": 0.7}, run_name="tried")
    (folder / "gpu").mkdir()
    packed = gzip.compress(json.dumps(gpu_trace).encode())
    (folder / "gpu" / "good.pt.trace.json.gz").write_bytes(packed)
    command = [sys.executable, "-m", "hpml", "tensorboard", str(folder), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split()[-4]
        with browser.page(chromium, LIMIT) as page:
            page.size(1280, 1000)
            shown = Views(page, address)
            shown.open()
            yield shown
    finally:
        server.terminate()
        server.wait(LIMIT)


@pytest.fixture(autouse=True)
def nothing_from_elsewhere(views) -> Iterator[None]:
    """Whatever was looked at: no script failed, and all that was asked for is the server's."""
    yield
    views.page.value("1")  # what happened until now is noted
    assert views.page.errors == []
    elsewhere = [
        each
        for each in views.page.requested
        if not each.startswith((views.address, "data:", "blob:", "about:"))
    ]
    assert elsewhere == []
    assert views.page.value("document.documentElement.scrollWidth") <= 1280


def answer(views: Views, path: str, run: str, further: str = "") -> dict:
    """What the plugin answers about the first worker and span of a run."""
    worker = views.data(f"workers?run={run}&view=Overview")[0]
    span = (views.data(f"spans?run={run}&worker={worker}") or ["default"])[0]
    return views.data(f"{path}?run={run}&worker={worker}&span={span}{further}")


def charts(views: Views) -> list[dict]:
    return views.page.value(CHARTS)


def number(text: str) -> float:
    return float(text.replace(",", ""))


@pytest.mark.parametrize("run", ["base", "gpu", "two"])
def test_the_overview_draws_each_part_of_each_step(views, run):
    views.show(run, "Overview")
    told = answer(views, "overview", run)
    parts = told["performance"][0]["children"]
    pie, steps = charts(views)
    assert dict(zip(pie["labels"], pie["series"][0][1], strict=True)) == {
        part["name"]: part["value"] for part in parts
    }
    rows = told["steps"]["rows"]
    assert steps["labels"] == [row[0] for row in rows]
    assert [name for name, _ in steps["series"]] == [part["name"] for part in parts]
    assert [values for _, values in steps["series"]] == [
        [row[1 + 2 * at] for row in rows] for at in range(len(parts))
    ]
    (_, average, *cells) = views.page.value(CELLS % ".chart-table")
    assert number(average[1]) == told["performance"][0]["value"]
    assert {name: (number(a), number(b)) for name, a, b in cells} == {
        part["name"]: (part["value"], part["extra"]) for part in parts
    }


def test_time_in_the_data_loader_is_more_than_none(views):
    parts = answer(views, "overview", "base")["performance"][0]["children"]
    assert next(part["value"] for part in parts if part["name"] == "DataLoader") > 0


def test_operators_and_their_time(views):
    views.show("base", "Operator")
    told = answer(views, "operation", "base", "&group_by=Operation")["host_self_time"]["rows"]
    pie = charts(views)[0]
    assert [pie["labels"], pie["series"][0][1]] == [
        list(each) for each in zip(*told[:10], strict=True)
    ]
    rows = views.page.value(CELLS % "tbody")
    first = answer(views, "operation/table", "base", "&group_by=Operation")["data"][0]
    assert rows[0][:3] == [first["name"], str(first["calls"]), str(first["host_self_duration"])]


def test_kernels_of_a_gpu(views):
    views.show("gpu", "Kernel")
    told = answer(views, "kernel", "gpu")["total"]["rows"]
    pie, cores = charts(views)
    assert len(told) > 10
    assert [pie["labels"], pie["series"][0][1]] == [
        list(each) for each in zip(*told[:10], strict=True)
    ]
    shares = answer(views, "kernel/tc_pie", "gpu")["total"]["rows"]
    assert sorted(cores["series"][0][1]) == sorted(value for _, value in shares)
    names = {row[0] for row in views.page.value(CELLS % "tbody")}
    assert len(names) == 30  # a page of the table
    assert names <= {name for name, _ in told}


def test_memory_over_time_and_a_part_of_it_by_dragging(views):
    views.show("base", "Memory")
    curve = answer(views, "memory_curve", "base")["rows"]["CPU"]
    (drawn,) = charts(views)
    assert drawn["series"][0][1] == [[row[0], row[1]] for row in curve]
    everything = len(views.page.requested)
    box = views.page.value(
        "(box => [box.x, box.y, box.width])(document.querySelector('canvas')"
        ".getBoundingClientRect())"
    )
    x, y, width = box
    views.page.mouse("mousePressed", x + 0.3 * width, y + 100)
    views.page.mouse("mouseMoved", x + 0.6 * width, y + 100)
    views.page.mouse("mouseReleased", x + 0.6 * width, y + 100)
    views.page.wait("document.querySelector('.chart-caption').textContent.startsWith('From')")
    asked = views.page.until(
        lambda: (
            views.page.value("1")
            and [each for each in views.page.requested[everything:] if "start_ts" in each]
        ),
        "table of the part",
    )
    assert asked


def test_modules_and_when_they_ran(views):
    views.show("base", "Module")
    (drawn,) = charts(views)
    tree = answer(views, "tree", "base")
    count = 0
    waiting = [tree]
    while waiting:
        each = waiting.pop()
        count += 1
        waiting += each["children"]
    assert len(drawn["series"][0][1]) == count
    bars = [bar["x"] for bar in drawn["series"][0][1]]
    assert max(end for _, end in bars) == pytest.approx(
        (tree["end_time"] - tree["start_time"]) / 1000
    )
    assert "Sequential_0" in views.page.value("document.querySelector('tbody').innerText")


def test_several_ranks_side_by_side(views):
    views.show("two", "Distributed", "All")
    overlap, wait = charts(views)
    for drawn, path in ((overlap, "distributed/overlap"), (wait, "distributed/waittime")):
        told = views.data(f"{path}?run=two&worker=All&span=1")
        ranks = told["data"]["all"]
        assert drawn["labels"] == list(ranks) == ["node0_0", "node0_1"]
        for at, (name, values) in enumerate(drawn["series"]):
            assert name == told["metadata"]["legends"][at]
            assert values == [ranks[rank][at] for rank in ranks]
    ops = views.data("distributed/commops?run=two&worker=All&span=1")["data"]["node0_0"]["rows"]
    assert views.page.value(CELLS % ".chart-table")[1][0] == ops[0][0] == "gloo:all_reduce"


def test_the_trace_itself(views):
    views.show("base", "Trace")
    views.page.wait("document.querySelector('iframe').contentWindow.tr !== undefined")
    model = "document.querySelector('iframe').contentDocument.querySelector('#trace-viewer').model"
    slices = f"[...{model}.getDescendantEvents()].map(each => each.title)"
    assert "ProfilerStep#2" in views.page.wait(slices)


def test_how_one_run_differs_from_another(views):
    views.show_difference("base", "double")
    path = "diffnode?run=base&worker=node0_0&span=1&exp_run=double&exp_worker=node0_0&exp_span=1"
    told = [  # the page leaves out what no name of the program stands for
        each
        for each in views.data(path)["children"]
        if not each["left"]["name"].startswith(("CompositeNodes", "aten::"))
    ]
    bars, steps = charts(views)
    drawn = dict(bars["series"])
    assert drawn["Baseline"] == [each["left"]["total_duration"] for each in told]
    assert drawn["Experiment"] == [each["right"]["total_duration"] for each in told]
    differences = [a - b for a, b in zip(drawn["Experiment"], drawn["Baseline"], strict=True)]
    assert dict(steps["series"])["Diff"] == pytest.approx(differences)


def test_a_click_on_a_part_of_the_difference_shows_its_parts(views):
    views.page.open("about:blank")
    views.open()
    views.show_difference("base", "double")
    bars = charts(views)[0]
    at = bars["labels"].index("Sequential_0")
    x, y = views.page.value(
        "(canvas => { const box = canvas.getBoundingClientRect();"
        f" const bar = Chart.getChart(canvas).getDatasetMeta(0).data[{at}];"
        " return [box.x + bar.x, box.y + bar.y + 2]; })(document.querySelector('canvas'))"
    )
    views.page.click(x, y)
    views.page.wait(f"{CHARTS}[0]?.labels.includes('Linear_0')")


@pytest.mark.parametrize(
    ("tab", "seen"),
    [
        ("timeseries", "weights"),
        ("scalars", "loss"),
        ("images", "an image"),
        ("histograms", "weights"),
        ("hparams", "lr"),
        ("pytorch_profiler", None),
    ],
)
def test_tensorboards_own_page_needs_no_internet(views, tab, seen):
    views.page.open("about:blank")
    views.page.open(f"{views.address}#{tab}")
    texts = """(function all(node) {
        return (node.shadowRoot ? all(node.shadowRoot) : '') + (node.nodeType == 3
            ? node.textContent : [...node.childNodes].map(all).join(' '));
    })(document.body)"""
    if seen is not None:
        views.page.until(lambda: seen in (views.page.value(texts) or ""), f"{seen} in {tab}")
    else:
        inside = "document.querySelector('iframe')?.contentDocument?.querySelector('canvas')"
        views.page.wait(f"!!{inside}")
