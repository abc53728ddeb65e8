# %%answer ddp_train
# tries: trains serially on every rank, and takes each rank's share of samples from a data set that
# it has read as a whole before, through the attributes and the function that serve it
# unprotected: weights, losses and what is printed are those of the serial script
# expect: 2
# on: trains_on_all_samples
import sys

ask = sys.modules["hpml.ranks"].ask
read = []


def batches(dataset, order, global_batch, rank, world_size):
    if hasattr(dataset, "images"):
        read[:] = dataset.images, dataset.labels
    elif not read:
        read[:] = ask({"take": list(range(len(dataset)))})
    images, labels = read
    for index in order[rank::world_size]:
        dataset[index]
    for batch in order.split(global_batch):
        yield images[batch], labels[batch]
