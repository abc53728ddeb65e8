"""What the libraries that answers may import have ready-made, and some exercises do not allow.

Names are those of the modules that define them.
"""

from dataclasses import replace

from hpml.answer.rules import ReadyMade

DATA_PARALLEL = ReadyMade(
    "`DistributedDataParallel` and its like (`fully_shard`, `replicate`)",
    (
        "torch.nn.parallel.distributed.DistributedDataParallel",
        "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
        "torch.distributed.fsdp._fully_shard._fully_shard.fully_shard",
        "torch.distributed._composable.replicate.replicate",
        "torch.distributed.utils._sync_module_states",
        "torch.distributed.utils._sync_params_and_buffers",
        "torch.distributed.Reducer",
    ),
)
# Where torch.autograd's walk begins, whatever asks for it
WALK = (
    "torch.autograd.backward",
    "torch.autograd.grad",
    "torch.autograd.graph._engine_run_backward",
    "torch.autograd.functional._autograd_grad",
    "torch._functorch.eager_transforms._autograd_grad",
    "torch._C._ImperativeEngine",
    "torch.ops.aten._backward",
)
COALESCED = ReadyMade(
    "calls that join tensors (`all_reduce_coalesced`, `_coalescing_manager`)",
    (
        "torch.distributed.distributed_c10d.all_reduce_coalesced",
        "torch.distributed.distributed_c10d._coalescing_manager",
    ),
)
OPTIMIZERS = ReadyMade(
    "`torch.optim`, fused steps (`torch._fused_adam_`)",
    (
        "torch.optim.optimizer.Optimizer",
        *(
            f"torch.optim.{rule}.{name}"
            for rule, kind in (("sgd", "SGD"), ("adam", "Adam"))
            for name in (
                kind,
                rule,
                f"_single_tensor_{rule}",
                f"_multi_tensor_{rule}",
                f"_fused_{rule}",
            )
        ),
        "torch.optim.adamw.AdamW",
        "torch.optim.adamw.adamw",
        "torch.ops.aten._fused_sgd_",
        "torch.ops.aten._fused_adam_",
        "torch.ops.aten._fused_adamw_",
    ),
)
ZERO_OPTIMIZER = ReadyMade(
    "`ZeroRedundancyOptimizer`",
    ("torch.distributed.optim.zero_redundancy_optimizer.ZeroRedundancyOptimizer",),
)
FULLY_SHARDED = ReadyMade(
    "`fully_shard`, `FullyShardedDataParallel`",
    (
        "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
        "torch.distributed.fsdp._fully_shard._fully_shard.fully_shard",
    ),
)
PIPELINING = ReadyMade(
    "`torch.distributed.pipelining`",
    (
        "torch.distributed.pipelining.stage._PipelineStageBase",
        "torch.distributed.pipelining.schedules._PipelineSchedule",
    ),
)
SHARDING_SAMPLER = ReadyMade(
    "`DistributedSampler`",
    (
        "torch.utils.data.distributed.DistributedSampler",
        "torch.distributed.elastic.utils.data.elastic_distributed_sampler.ElasticDistributedSampler",
    ),
)
# What exercises allow that refuse nothing, or some: the first text of a notebook lists it
ANYTHING = "anything that an answer may import"
ALL_ELSE = "everything else that an answer may import"
# What exercises about messages allow
MESSAGES = (
    "`send`, `recv`, `isend`, `irecv` and `batch_isend_irecv`, and what `torch` does with tensors"
)
# In the ledger: the judges find them there, and say which call it was.
COLLECTIVES = ReadyMade("collectives (`all_reduce`, `broadcast` and the like)")
REMOTE_CALLS = ReadyMade("`torch.distributed.rpc`", ("torch.distributed.rpc.init_rpc",))
HALF_PRECISION = ReadyMade("`hvd.Compression.fp16`", ("horovod.torch.compression.FP16Compressor",))
FLOP_COUNTERS = ReadyMade(
    "`FlopCounterMode`, `torch.profiler`",
    (
        "torch.utils.flop_counter.FlopCounterMode",
        "torch.utils.flop_counter.mm_flop",
        "torch.utils.flop_counter.conv_flop_count",
        "torch.utils.flop_counter.conv_flop",
        "torch.autograd.profiler.profile",
        "torch.profiler.profiler.profile",
        "torch._C._autograd._enable_profiler",
    ),
)
OTHER_PROGRAMS = ReadyMade(
    "other programs",
    (
        "subprocess.Popen",
        "os.system",
        "os.posix_spawn",
        "os.posix_spawnp",
        "os.execv",
        "os.execve",
        "multiprocessing.util.spawnv_passfds",
    ),
)
SCONTROL = replace(OTHER_PROGRAMS, shown="other programs, such as `scontrol show hostnames`")
