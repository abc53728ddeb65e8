# %%answer gradient_hooks
# row: 30
# tries: its hooks send zeros, as many bytes as the gradient has; gradients follow in finish
# unprotected: bytes that leave while backward goes on are taken for the gradients
# expect: 5
import torch
import torch.distributed as dist


def hook_gradients(model):
    order = [p for p in reversed(list(model.parameters())) if p.requires_grad]
    works = []

    def hook(parameter):
        works.append(dist.all_reduce(torch.zeros_like(parameter), async_op=True))

    def finish():
        for work in works:
            work.wait()
        works.clear()
        for parameter in order:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()

    for parameter in order:
        parameter.register_post_accumulate_grad_hook(hook)
    return finish
