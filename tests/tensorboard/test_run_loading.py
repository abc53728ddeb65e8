"""What the plugin is given: today's traces in its own words, and of a broken one a line."""

import gzip
import json
from pathlib import Path

import pytest

from hpml.errors import UserError
from hpml.tensorboard import plugin
from hpml.tensorboard.difference import align
from hpml.tensorboard.run_loading import FolderLoader, TraceFile, read, trace_files


class HerePool:
    """Parses in this process."""

    map = staticmethod(map)


def event(name: str, start: float, duration: float, category: str = "cpu_op", **args) -> dict:
    return {
        **{"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1},
        **{"ts": start, "dur": duration, "args": args},
    }


LOADING = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
TRACE = {
    "traceEvents": [
        event("ProfilerStep#3", 0, 1000, "user_annotation"),
        event(LOADING, 0, 300, "user_annotation"),
        event("aten::mm", 400, 500),
        event("forward", 400, 550, "user_annotation"),
    ]
}


def write(folder: Path, name: str, trace=TRACE) -> Path:
    path = folder / name
    path.write_text(json.dumps(trace))
    return path


def load(folder: Path):
    return FolderLoader("run", str(folder), HerePool).load()


def test_time_in_a_data_loader_is_counted_as_such(tmp_path):
    write(tmp_path, "rank0.17.pt.trace.json")
    overview = load(tmp_path).get_profile("rank0", "1").overview
    parts = {part["name"]: part["value"] for part in overview["performance"][0]["children"]}
    assert parts == {"DataLoader": 300, "CPU Exec": 500, "Other": 200}


def test_kernels_of_nccl_are_communication(tmp_path):
    """15 ms on the device, launched inside a mark of 0.1 ms: each has an id of its own."""
    mark = "nccl:all_reduce"
    nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    device = {"pid": 0, "tid": 7}
    trace = {
        "traceEvents": [
            event("ProfilerStep#3", 0, 40000, "user_annotation", **{"External id": 1}),
            event(mark, 1000, 100, "user_annotation", **{"External id": 2}),
            event("cudaLaunchKernel", 1010, 5, "cuda_runtime", correlation=9, **{"External id": 3}),
            event("cudaLaunchKernel", 900, 5, "cuda_runtime", correlation=8, **{"External id": 4}),
            event(nccl, 20000, 15000, "kernel", correlation=9, **{"External id": 3}) | device,
            event("gemm", 5000, 10000, "kernel", correlation=8, **{"External id": 4}) | device,
        ]
    }
    write(tmp_path, "rank0.17.pt.trace.json", trace)
    overview = load(tmp_path).get_profile("rank0", "1").overview
    parts = {part["name"]: part["value"] for part in overview["performance"][0]["children"]}
    assert parts["Kernel"] == 10000
    assert parts["Communication"] == 15100


def test_calls_of_cuda_and_what_belongs_to_backward_are_renamed(tmp_path):
    trace = {
        "traceEvents": [
            event("cudaLaunchKernel", 0, 1, "cuda_runtime"),
            {"ph": "s", "id": 1, "name": "fwdbwd", "cat": "fwdbwd", "ts": 1},
            event("forward", 0, 1, "user_annotation"),
        ]
    }
    named = [each["cat"] for each in read(write(tmp_path, "a.json", trace))["traceEvents"]]
    assert named == ["runtime", "forward_backward", "user_annotation"]


def test_a_worker_s_traces_are_counted_in_the_order_of_their_times(tmp_path):
    for name in ("node1_0.200.pt.trace.json", "node1_0.30.pt.trace.json", "b.pt.trace.json", "x"):
        write(tmp_path, name)
    assert [(each.worker, each.span) for each in trace_files(tmp_path)] == [
        ("b", None), ("node1_0", 2), ("node1_0", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (json.dumps(TRACE)[:-30].encode(), "cut off, or no JSON"),
        (gzip.compress(b"[]" * 9999)[:-9], "cut off, or no JSON"),
        (b"[]", "no list of traceEvents"),
        (b'{"traceEvents": [1]}', "no list of traceEvents"),
        (b'{"traceEvents": []}', "no events with a duration"),
        (b'{"traceEvents": ' + b"[" * 100_000, "cut off, or no JSON"),
    ],
    ids=["cut off", "cut off in gz", "a list", "no events", "empty", "nested"],
)
def test_a_broken_trace_is_a_line_and_the_others_are_shown(tmp_path, capsys, content, said):
    suffix = ".gz" if content.startswith(b"\x1f") else ""
    bad = tmp_path / f"bad.pt.trace.json{suffix}"
    bad.write_bytes(content)
    write(tmp_path, "good.pt.trace.json")
    assert load(tmp_path).workers == ["good"]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{bad}: not shown: {said}")


def test_a_folder_with_broken_traces_alone_is_no_run(tmp_path, capsys):
    write(tmp_path, "bad.pt.trace.json", {"traceEvents": [{"ph": "X"}]})
    assert load(tmp_path) is None
    assert "not shown: the plugin cannot read it: AttributeError" in capsys.readouterr().err


def test_a_link_in_the_advice_leads_somewhere(tmp_path):
    trace = {"traceEvents": [*TRACE["traceEvents"], event("gloo:all_reduce", 0, 900)]}
    path = write(tmp_path, "rank0.pt.trace.json", trace)
    advice = load(tmp_path).get_profile("rank0", "default").overview["recommendations"]
    assert "in communication" in advice
    assert 'href="https://pytorch.org/docs/stable/ddp_comm_hooks.html"' in advice
    assert TraceFile(path, "rank0", None) == trace_files(tmp_path)[0]


@pytest.mark.filterwarnings("ignore:The copy keyword")
def test_the_name_of_a_gpu_is_no_html_of_the_page(tmp_path, gpu_trace):
    named = {**gpu_trace["deviceProperties"][0], "name": "<img src=x onerror=alert(1)>"}
    write(tmp_path, "rank0.pt.trace.json", {**gpu_trace, "deviceProperties": [named]})
    summary = load(tmp_path).get_profile("rank0", "default").gpu_summary
    (name,) = [line["value"] for line in summary if line["title"] == "Name"]
    assert name == "&lt;img src=x onerror=alert(1)&gt;"


def test_a_page_of_another_version_of_the_plugin_is_refused(monkeypatch, tmp_path):
    (tmp_path / "index.html").write_text("<html></html>")
    monkeypatch.setattr(plugin, "THEIRS", tmp_path)
    with pytest.raises(UserError, match=r"not that of 0\.4\.3"):
        plugin.served_page("index.html")


def test_each_operator_of_two_runs_is_beside_itself():
    def aggs(**calls: int) -> dict:
        return {"aggs": [{"name": name, "calls": count} for name, count in calls.items()]}

    node = align({"left": aggs(mm=1, relu=2), "right": aggs(cat=4, mm=3), "children": []})
    sides = [
        {agg["name"]: agg["calls"] for agg in node[side]["aggs"]} for side in ("left", "right")
    ]
    assert [list(side) for side in sides] == [["mm", "relu", "cat"]] * 2
    assert sides == [{"mm": 1, "relu": 2, "cat": 0}, {"mm": 3, "relu": 0, "cat": 4}]
