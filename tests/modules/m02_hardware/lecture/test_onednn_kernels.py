"""What oneDNN prints about its kernels, read back."""

import pytest
import torch

from hpml.errors import UserError
from hpml.modules.m02_hardware.lecture import onednn_kernels
from hpml.modules.m02_hardware.lecture.onednn_kernels import Kernels, forward, parse, table

PRINTED = """onednn_verbose,v1,info,oneDNN v3.12.0
onednn_verbose,v1,primitive,info,template:operation,engine,primitive,implementation,prop_kind
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32,,,64x24x3x3,0.01
onednn_verbose,v1,primitive,exec,cpu,convolution,ref:any,forward_training,src:f32,,,mb8,9
onednn_verbose,v1,primitive,exec,cpu,convolution,brg_conv_fwd:avx2,forward_training,src:f32,,,mb8,1
onednn_verbose,v1,primitive,exec,cpu,convolution,brg_conv_fwd:avx2,forward_training,src:f32,,,mb8,1
onednn_verbose,v1,primitive,exec,cpu,convolution,brg_conv_bwd:avx2+brg_conv_fwd:avx2,backward_data,x
result: {"step": 0.1}
"""


def found(wide, brain, old):
    names = ("float32", "bfloat16", "float32, AVX2 only")
    return {
        name: Kernels({"forward": one} if one else {}, 0.1)
        for name, one in zip(names, (wide, brain, old), strict=True)
    }


def test_the_commonest_kernel_of_each_pass():
    assert parse(PRINTED) == {
        "forward": "brg_conv_fwd:avx2",
        "backward to the input": "brg_conv_bwd:avx2",
    }


def test_names_that_differ_are_concluded():
    names = ("b:avx512_core", "b:avx512_core_bf16", "b:avx2")
    assert forward(found(*names)) == (True, True, *names)
    assert not forward(found("b:avx512_core", "b:avx512_core", "b:avx2")).held


def test_a_processor_without_kernels_for_bfloat16_has_an_answer_too():
    assert forward(found("b:avx2", "", "b:avx2"))[:2] == (True, False)
    assert not forward(found("", "", "")).held


def test_the_table_says_where_there_is_no_kernel_of_onednns():
    assert "not oneDNN's" in table(found("b:avx512_core", "", "b:avx2")).splitlines()[2]


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch without oneDNN")
def test_a_step_names_its_kernels(monkeypatch):
    monkeypatch.setenv("HPML_BATCH", "2")
    monkeypatch.setattr(onednn_kernels, "SETTINGS", {"float32": {"HPML_STEPS": "1"}})
    one = onednn_kernels.kernels()["float32"]
    assert set(one.convolution) == set(onednn_kernels.PASSES.values())
    assert one.step > 0


def test_a_step_that_fails_is_reported(monkeypatch):
    monkeypatch.setattr(onednn_kernels, "SETTINGS", {"float32": {"HPML_STEPS": "many"}})
    with pytest.raises(UserError, match=r"float32: ValueError"):
        onednn_kernels.kernels()
