# %%answer gradient_hooks
# tries: asks for all of backward's factors at its first place, so that a rank that is held up until
# the others have come to the last place goes on, and waits in every hook
# unprotected: backward seems to go on while a rank is late
# expect: 7
import torch.distributed as dist

PLACES = ("hidden.0", "left and right", "first", "embed")


def hook_gradients(model):
    order = [p for p in reversed(list(model.parameters())) if p.requires_grad]
    ready, sent, factors = set(), [], {}
    ask = model.factor

    def factor(place):
        if place not in factors:
            factors.update({each: ask(each) for each in PLACES})
        return factors.pop(place)

    def hook(parameter):
        ready.add(parameter)
        while len(sent) < len(order) and order[len(sent)] in ready:
            sent.append(dist.all_reduce(order[len(sent)].grad))

    def finish():
        for parameter in order:
            parameter.grad /= dist.get_world_size()
        ready.clear()
        sent.clear()

    model.factor = factor
    for parameter in order:
        parameter.register_post_accumulate_grad_hook(hook)
    return finish
