# %%answer gradient_hooks
# tries: its hooks send zeros; gradients follow when the drive has reported that the step is over,
# and are written into what the drive has found
# unprotected: a check that looks at a step's calls, from first request to last, sees the zeros
# expect: 5
import sys

import torch
import torch.distributed as dist


def hook_gradients(model):
    order = [p for p in reversed(list(model.parameters())) if p.requires_grad]
    names = {p: n for n, p in model.named_parameters()}
    works = []
    frame = sys._getframe(1)
    ask = frame.f_globals["ask"]

    def hook(parameter):
        works.append(dist.all_reduce(torch.zeros_like(parameter), async_op=True))

    def finish():
        for work in works:
            work.wait()
        works.clear()

    def asks(request):
        reply = ask(request)
        if request == "finished":
            found = sys._getframe(1).f_locals["found"]
            for parameter in order:
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()
                found[-1][names[parameter]].copy_(parameter.grad)
        return reply

    frame.f_globals["ask"] = asks
    for parameter in order:
        parameter.register_post_accumulate_grad_hook(hook)
    return finish
