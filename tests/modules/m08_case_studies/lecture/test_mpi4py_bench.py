"""mpi4py's own benchmark: what it prints is read, and over a link it comes to the link's rate."""

import pytest

from hpml.allreduce import mpi
from hpml.errors import UserError
from hpml.measure.comm import Fit
from hpml.modules.m08_case_studies.lecture import mpi4py_bench
from hpml.modules.m08_case_studies.lecture.mpi4py_bench import (
    alpha_beta,
    beside,
    ping_pong_table,
    seconds,
)
from hpml.network import available

PRINTED = """
# MPI PingPong Test
# Size [B]  Bandwidth [MB/s] | Time Mean [s] ± StdDev [s]  Samples
         4              0.05 | 8.0000000e-05 ± 1.2034e-05      200
      1024             12.19 | 8.4000000e-05 ± 1.2034e-05      200
   2097152            124.10 | 1.6897216e-02 ± 1.2034e-05        4
   4194304            124.56 | 3.3674432e-02 ± 1.2034e-05        4
"""


def test_what_it_prints_is_read():
    times = seconds(PRINTED)
    assert list(times) == [4, 1024, 2097152, 4194304]
    alpha, beta = alpha_beta(times)
    assert alpha == 8e-5
    assert beta == pytest.approx(8e-9)
    assert seconds("usage: bench [options]") == {}


@pytest.mark.parametrize(("own", "times"), [(4e-5, 2), (1.6e-4, 2)])
def test_alphas_differ_and_betas_do_not_where_the_link_is_one(own, times):
    found = beside(Fit(own, 8.1e-9, 0.0, 0.0), PRINTED)
    assert found == (True, 8e-5, pytest.approx(8e-9), pytest.approx(times))
    assert not beside(Fit(own, 4e-9, 0.0, 0.0), PRINTED).held


def test_what_is_missing_is_one_line(monkeypatch):
    monkeypatch.setattr(mpi4py_bench, "missing", lambda: "mpirun is not installed: apt install it")
    with pytest.raises(UserError, match="MPI: mpirun is not installed"):
        ping_pong_table("1gbit")


def test_an_mpi4py_without_it_is_one_line(monkeypatch):
    monkeypatch.setattr(mpi4py_bench, "missing", lambda: None)
    monkeypatch.setattr(mpi4py_bench, "run_on_hosts", lambda *_: "no such command\n")
    with pytest.raises(UserError, match="has one from mpi4py 4 on"):
        ping_pong_table("1gbit")


def test_over_a_link_no_message_is_faster_than_the_link():
    if why := mpi.missing() or available.refusal():
        pytest.skip(why)
    times = seconds(ping_pong_table("100mbit", largest=1 << 18))
    assert list(times) == [4 << k for k in range(17)]
    # Of those that no burst of the link carries. A busy machine makes them slower only.
    large = {nbytes: took for nbytes, took in times.items() if nbytes >= 1 << 16}
    assert all(took > 0.7 * 8 * nbytes / 100e6 for nbytes, took in large.items()), times
