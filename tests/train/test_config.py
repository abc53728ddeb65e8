"""The command line: what it says, and what it refuses, in one line."""

import dataclasses
import subprocess
import sys

import pytest

from hpml.errors import UserError
from hpml.train.config import TrainConfig, parse

OF_DDP = ("bucket_mib",)
OF_THE_TRANSFORMER = ("model", "size", "shard", "tensor", "pipeline", "micro_batches")


def test_every_field_can_be_given_on_the_command_line():
    asked = parse(
        "--data d --samples 9 --test-samples 8 --epochs 2 --early-size 20 --early-share 0.2 "
        "--batch-size 4 --lr 0.5 --lr-rule sqrt "
        "--warmup 0.1 --momentum 0.8 --weight-decay 0 --label-smoothing 0.3 "
        "--no-lookahead --widths 8,16 --seed 7 "
        "--threads 1 --device cpu --backend horovod --precision fp32 --checkpoint c --resume "
        "--out o --tensorboard t --profile 0,3 --no-progress --loader ahead "
        "--memory-format contiguous --compile".split()
    )
    default = TrainConfig()
    for field in dataclasses.fields(TrainConfig):
        if field.name in (*OF_DDP, *OF_THE_TRANSFORMER):
            continue
        assert getattr(asked, field.name) != getattr(default, field.name), field.name
    assert (asked.widths, asked.lr, asked.samples) == ((8, 16), 0.5, 9)


def test_options_of_the_transformer_can_be_given_with_it():
    asked = parse(
        "--model vit --size small --lr 0.5 --shard fsdp --tensor 2 --pipeline 3 --micro-batches 4 "
        "--backend ddp".split()
    )
    assert (asked.model, asked.size, asked.lr) == ("vit", "small", 0.5)
    assert (asked.shard, asked.tensor, asked.pipeline, asked.micro_batches) == ("fsdp", 2, 3, 4)
    assert asked.splits == "--shard fsdp --tensor 2 --pipeline 3"
    assert TrainConfig().splits == ""


def test_the_size_of_a_bucket_can_be_given_with_ddp():
    assert parse("--bucket-mib 0.5 --backend ddp".split()).bucket_mib == 0.5


def test_a_model_has_its_own_defaults_and_none_for_what_it_has_not():
    residual, vit = TrainConfig(), TrainConfig(model="vit")
    assert (residual.lr_rule, residual.widths, residual.size) == ("linear", (64, 256, 256), None)
    assert (vit.lr_rule, vit.widths, vit.size) == ("sqrt", None, "tiny")
    assert vit.lr < residual.lr


def test_nothing_given_is_the_default():
    assert parse([]) == TrainConfig()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--epochs 0", "--epochs is 0, expected at least 1"),
        ("--epochs many", "--epochs: invalid int value: 'many'"),
        ("--batch-size -5", "--batch-size is -5, expected at least 1"),
        ("--lr-rule cubic", "--lr-rule is 'cubic', expected one of none, sqrt, linear"),
        ("--device tpu", "--device is 'tpu', expected one of auto, cpu, cuda"),
        ("--precision fp8", "--precision is 'fp8', expected one of auto, bf16, fp32"),
        ("--warmup 2", "--warmup is 2.0, expected at most 1"),
        ("--lr nan", "--lr is nan, expected at least 0"),
        ("--widths 8,,16", "--widths: "),
        ("--widths 8,0", "--widths is 0, expected at least 1"),
        ("--model bert", "--model is 'bert', expected one of residual, vit"),
        ("--model vit --size huge", "--size is 'huge', expected one of tiny, small"),
        ("--size tiny", "--size is not for --model residual: leave it out"),
        ("--model vit --widths 8", "--widths is not for --model vit: leave it out"),
        ("--model vit --early-share 0", "--early-share is not for --model vit: leave it out"),
        ("--model vit --momentum 0.9", "--momentum is not for --model vit: leave it out"),
        ("--tensor 2", "--tensor is 2, and the residual network is not split: add --model vit"),
        ("--pipeline 2", "--pipeline is 2, and the residual network is not split"),
        ("--shard zero2", "--shard is 'zero2', expected one of none, zero1, fsdp"),
        ("--model vit --tensor 0", "--tensor is 0, expected at least 1"),
        ("--shard fsdp --backend horovod", "gradients: leave it out, or --shard fsdp"),
        ("--model vit --shard zero1 --tensor 2", "--shard is zero1, and --tensor is 2: torch's"),
        ("--loader files", "--loader is 'files', expected one of images, batch, ahead"),
        ("--memory-format nhwc", "--memory-format is 'nhwc', expected one of contiguous, channels"),
        ("--bucket-mib -1", "--bucket-mib is -1.0, expected at least 0"),
        ("--bucket-mib 1 --backend horovod", "set HOROVOD_FUSION_THRESHOLD"),
        ("--model vit --shard fsdp --compile", "--compile is for ranks that each have the whole"),
        ("--model vit --tensor 2 --bucket-mib 1", "leave it out, or --tensor 2"),
        ("--resume", "--resume needs --checkpoint DIR"),
        ("--speed 3", "unrecognized arguments: --speed 3"),
        ("--ep 3", "unrecognized arguments: --ep 3"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(arguments, message):
    with pytest.raises(UserError) as refused:
        parse(arguments.split())
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_configuration_and_the_history_are_there_without_torch():
    code = (
        "import sys, hpml.train.config, hpml.train.history, hpml.train.learning_rate;"
        "assert 'torch' not in sys.modules;"
        "from hpml.train import Run, main, train; assert callable(train) and 'torch' in sys.modules"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
