# %%answer instrument
# unusual: TensorBoard's own handler, compressed, with stacks and modules; records as decorators
import torch
import torch.distributed as dist
import torch.profiler as profiler


def train(training, steps, wait, warmup, active, folder):
    load = profiler.record_function("loading")(training.load)
    forward = profiler.record_function("forward")(training.forward)
    backward = profiler.record_function("backward")(training.backward)
    update = profiler.record_function("optimizer")(training.update)
    handler = profiler.tensorboard_trace_handler(
        folder, worker_name=f"rank{dist.get_rank()}", use_gzip=True
    )
    plan = profiler.schedule(wait=wait, warmup=warmup, active=active, repeat=1)
    with profiler.profile(
        schedule=plan,
        on_trace_ready=handler,
        record_shapes=True,
        profile_memory=True,
        with_stack=True,
        with_modules=True,
        with_flops=True,
    ) as prof:
        for _ in range(steps):
            with torch.autograd.profiler.record_function("one step of training"):
                backward(forward(load()))
                update()
            prof.step()
