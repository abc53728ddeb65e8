# %%answer gradient_hooks
# unusual: a class that is called, futures, the division before sending, a place in the order for each
import logging

import torch
import torch.distributed as dist

logging.basicConfig(level=logging.DEBUG)


class Hooked:
    def __init__(self, model):
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        self.parameters = [p for _, p in named[::-1]]
        for place, parameter in enumerate(self.parameters):
            parameter.register_post_accumulate_grad_hook(self.hook(place))
        self.start()

    def start(self):
        self.here = [False] * len(self.parameters)
        self.futures = []

    def hook(self, place):
        def ready(_):
            self.here[place] = True
            while len(self.futures) < len(self.here) and self.here[len(self.futures)]:
                self.send(self.parameters[len(self.futures)])

        return ready

    @torch.no_grad()
    def send(self, parameter):
        parameter.grad.div_(dist.get_world_size())
        logging.debug("sends %d elements", parameter.numel())
        self.futures.append(dist.all_reduce(parameter.grad, async_op=True).get_future())

    def __call__(self):
        torch.futures.wait_all(self.futures)
        self.start()


def hook_gradients(model):
    return Hooked(model)
