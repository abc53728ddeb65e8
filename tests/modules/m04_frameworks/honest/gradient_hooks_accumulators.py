# %%answer gradient_hooks
# unusual: hooks on autograd's accumulating nodes, as before post-accumulate hooks; a heap of places
import heapq

import torch
import torch.distributed as dist


def hook_gradients(model):
    trained = [p for p in model.parameters() if p.requires_grad]
    count, world_size = len(trained), dist.get_world_size()
    waiting, works, nodes = [], [], []

    def hook_of(place):
        def hook(*_):
            heapq.heappush(waiting, place)
            while waiting and waiting[0] == len(works):
                grad = trained[count - 1 - heapq.heappop(waiting)].grad
                works.append(dist.all_reduce(grad, async_op=True))

        return hook

    for index, parameter in enumerate(trained):
        node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
        node.register_hook(hook_of(count - 1 - index))
        nodes.append(node)

    def finish(nodes=nodes):  # which keeps the nodes alive
        while works:
            works.pop().wait()
        torch._foreach_div_([p.grad for p in trained], float(world_size))

    return finish
