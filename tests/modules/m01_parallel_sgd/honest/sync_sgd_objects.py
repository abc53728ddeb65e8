# %%answer sync_sgd
# unusual: weights, gradients and counts travel as pickled objects
import torch.distributed as dist


def start(weights):
    box = [weights if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def step(weights, x, y, learning_rate):
    mine = {"gradient": x.T @ (x @ weights - y), "samples": len(y)}
    everybodys = [None] * dist.get_world_size()
    dist.all_gather_object(everybodys, mine)
    samples = sum(each["samples"] for each in everybodys)
    return weights - learning_rate * sum(each["gradient"] for each in everybodys) / samples
