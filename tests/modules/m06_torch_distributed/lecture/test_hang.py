"""Two jobs that hang, and what py-spy, monitored_barrier and DETAIL report of them."""

import contextlib
import uuid

import psutil
import pytest

from hpml.errors import UserError
from hpml.modules.m06_torch_distributed.lecture import hang


def with_name(name: str) -> list[int]:
    """Processes that were started with HPML_TEST=name, also those that lost their parent."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("HPML_TEST") == name:
                found.append(process.pid)
    return found


@pytest.fixture(autouse=True)
def _nothing_is_left(monkeypatch):
    name = uuid.uuid4().hex
    monkeypatch.setenv("HPML_TEST", name)
    yield
    assert with_name(name) == []


def source(bug: str) -> list[tuple[str, str]]:
    try:
        places = hang.stacks(bug)
    except UserError as error:
        if "cannot look into" in str(error):
            pytest.skip(str(error))
        raise
    lines = hang.JOB.read_text().splitlines()
    assert [place.rank for place in places] == [0, 1, 2]
    assert all(place.call in lines[place.line - 1] for place in places)
    return [(place.function, place.call) for place in places]


def test_stacks_show_the_rank_that_never_came_to_the_all_reduce():
    waits = ("average_gradients", "dist.all_reduce(parameter.grad)")
    assert source("stuck") == [waits, ("read_batch", "os.read(silent, 1)"), waits]


def test_stacks_show_the_rank_that_made_another_call():
    waits = ("average_gradients", "dist.all_reduce(parameter.grad)")
    assert source("short") == [waits, ("train", "dist.barrier()"), waits]


def test_a_time_limit_names_only_ranks_that_waited():
    said = hang.complaints("stuck")
    assert said
    assert 1 not in said
    assert not any("ank 1" in text for text in said.values())


def test_a_monitored_barrier_names_the_rank_that_did_not_come():
    said = hang.complaints("stuck", monitor=True)
    assert said[0] == "[Rank 0]: Rank 1 failed to pass monitoredBarrier in 3000 ms"


def test_detail_names_the_calls_that_do_not_fit():
    said = hang.complaints("short", detail=True)
    own = {text.partition(", but")[0] for text in said.values()}
    start = "Detected mismatch between collectives on ranks. Rank"
    assert own
    assert own <= {
        f"{start} 0 is running collective: ALLREDUCE",
        f"{start} 1 is running collective: BARRIER",
        f"{start} 2 is running collective: ALLREDUCE",
    }


def test_a_job_that_does_not_hang_is_an_error(monkeypatch):
    monkeypatch.setattr(hang, "PATIENCE", 30.0)
    with pytest.raises(UserError, match="did not hang"):
        hang.stacks("none")


def test_the_listing_has_the_jobs_functions_with_the_files_line_numbers():
    lines = hang.JOB.read_text().splitlines()
    listed = {int(line[:3]): line[5:] for line in hang.listing().splitlines()}
    assert all(lines[number - 1] == text for number, text in listed.items() if text)
    assert {"def read_batch(rank: int, step: int) -> torch.Tensor:", "    dist.barrier()"} <= {
        *listed.values()
    }
