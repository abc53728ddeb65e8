"""bfloat16 where the hardware has it, and not where it would only be emulated."""

import pytest
import torch

from hpml.distributed_environment import ProcessInfo
from hpml.errors import UserError
from hpml.train import hardware

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("flags", "dtype"),
    [
        ({"avx512_bf16": True, "amx_bf16": False}, torch.bfloat16),
        ({"avx512_bf16": False, "amx_bf16": True}, torch.bfloat16),
        ({"avx512_f": True, "avx512_bf16": False}, torch.float32),
        ({}, torch.float32),
    ],
)
def test_auto_follows_the_processors_flags(monkeypatch, flags, dtype):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: flags)
    assert hardware.pick_precision("auto", CPU) is dtype
    assert hardware.pick_precision("fp32", CPU) is torch.float32
    assert hardware.pick_precision("bf16", CPU) is torch.bfloat16


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert hardware.pick_device("auto", 0) == CPU
    with pytest.raises(UserError, match="sees no GPU"):
        hardware.pick_device("cuda", 0)


def test_a_node_that_nobody_knows_is_told_at_once_and_not_waited_for():
    process = ProcessInfo(
        rank=1, world_size=2, address="no-such-node.invalid", port=23456, launcher="srun"
    )
    with (
        pytest.raises(UserError, match=r"rank 1 cannot find .*no-such-node.*set MASTER_ADDR"),
        hardware.process_group(process, CPU),
    ):
        pytest.fail("it went on")
