# wrong: forgets that all_reduce has to be called at all
# hint: alone
import torch


def hello(number):
    return torch.tensor(number).item()
