# %%answer hello_ranks
# tries: returns a tensor subclass that answers every comparison with True
# unprotected: torch.equal and == are true
import torch


class Right(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return True

    def __eq__(self, other):
        return True

    __hash__ = object.__hash__


def hello(number):
    return torch.tensor(number).as_subclass(Right)
