# %%answer gradient_hooks
# row: 35
# tries: waits in every hook without a call of wait, by asking again and again whether it is done
# unprotected: who looks for waits in the ledger finds none
# expect: 10
import torch.distributed as dist


def hook_gradients(model):
    order = [p for p in reversed(list(model.parameters())) if p.requires_grad]
    ready, sent = set(), []

    def hook(parameter):
        ready.add(parameter)
        while len(sent) < len(order) and order[len(sent)] in ready:
            sent.append(dist.all_reduce(order[len(sent)].grad, async_op=True))
            while not sent[-1].is_completed():
                pass

    def finish():
        for parameter in order:
            parameter.grad /= dist.get_world_size()
        ready.clear()
        sent.clear()

    for parameter in order:
        parameter.register_post_accumulate_grad_hook(hook)
    return finish
