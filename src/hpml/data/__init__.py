"""CIFAR-10: find it, check it, map it, and make batches of it.

data = load()                       # or load("DIR"); data.describe() names what it is
order = torch.randperm(len(data.train)).numpy()
for images, labels in batches(data.train, order, batch_size=512):
    pixels = normalize(augment(images, generator), channels_last=True)
"""

from hpml.data.batches import augment, batches, normalize
from hpml.data.cifar10 import CLASSES, Data, Split
from hpml.data.sources import find, load

__all__ = ["CLASSES", "Data", "Split", "augment", "batches", "find", "load", "normalize"]
