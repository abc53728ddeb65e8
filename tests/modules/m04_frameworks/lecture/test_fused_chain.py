"""The comparison of eager and compiled; the compiler itself is run only by the lecture."""

import dataclasses

import pytest
import torch
from torch.nn import functional as F

from hpml.errors import UserError
from hpml.measure.gain import Gain
from hpml.modules.m04_frameworks.lecture import fused_chain
from hpml.modules.m04_frameworks.lecture.fused_chain import Chain
from hpml.modules.m04_frameworks.lecture.operators_run import bytes_moved, recorded

CODE = """header
{
    for(int64_t x0=0; x0<8; x0+=4)
    {
        {
            auto tmp0 = loadu(in_ptr0 + x0);
            tmp0.store(out_ptr0 + x0);
        }
    }
    done();
}
for(later)
"""
LOOP = """for(int64_t x0=0; x0<8; x0+=4)
{
    {
        auto tmp0 = loadu(in_ptr0 + x0);
        tmp0.store(out_ptr0 + x0);
    }
}"""
SEEN = Chain(
    elements=2**20,
    operators=9,
    moved=22 * 2**22,
    kernels=("cpp_fused_add_mul_tanh_0",),
    compiled_moved=2 * 2**22,
    gain=Gain((0.02, 0.01, 0.03), (0.004, 0.004, 0.005)),
    gain_kept=Gain((0.012,), (0.004,)),
    copied=0.001,
    tanh=0.003,
    first_call=8.0,
    first_call_cached=2.0,
    difference=1e-7,
    loop=LOOP,
)


def test_the_chain_is_gelu():
    x = torch.randn(100)
    assert torch.allclose(fused_chain.gelu(x), F.gelu(x, approximate="tanh"), atol=1e-6)


def test_eager_reads_and_writes_at_each_operator():
    x = torch.randn(1000)
    ran = recorded(fused_chain.gelu, x)
    assert len(ran) == 9
    assert bytes_moved(ran) > 4 * 2 * 4000


def test_compiling_is_paid_back_by_what_a_call_saves():
    assert SEEN.break_even == pytest.approx(500)
    slower = Gain((0.02,), (0.03,))
    assert dataclasses.replace(SEEN, gain=slower).break_even == float("inf")


def test_one_kernel_with_fewer_bytes_is_fused():
    assert SEEN.fused
    assert "first call" in str(SEEN)


@pytest.mark.parametrize(
    "change",
    [{"gain": Gain((0.02,), (0.05,))}, {"kernels": ("a", "b")}, {"difference": 0.1}],
)
def test_anything_else_is_not(change):
    assert not dataclasses.replace(SEEN, **change).fused


def test_without_a_compiler_the_remedy_is_one_line(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert fused_chain.missing().startswith("no-such-compiler is not installed")
    with pytest.raises(UserError, match="apt install"):
        fused_chain.compare()


def test_a_process_that_fails_or_hangs_is_reported_and_its_cache_removed(monkeypatch, tmp_path):
    monkeypatch.setattr(fused_chain, "missing", lambda: "")
    monkeypatch.setattr(fused_chain.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(fused_chain, "MODULE", "no_such_module")
    with pytest.raises(UserError, match="no_such_module"):
        fused_chain.compare()
    monkeypatch.setattr(fused_chain, "MODULE", "http.server")
    monkeypatch.setattr(fused_chain, "LIMIT", 0.5)
    with pytest.raises(UserError, match="no result after"):
        fused_chain._measured(0, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_the_loop_is_found_in_the_code():
    assert fused_chain.loop_of(CODE) == LOOP
    assert fused_chain.loop_of("no kernel") == ""
