"""An image and its label as 3,073 bytes, the record of CIFAR-10's binary layout."""

import numpy as np

from hpml.data.mapped import RECORD, SHAPE

Sample = tuple[np.ndarray, int]


def records(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """uint8 [N, 3073]: the label byte, then the red, green and blue plane.

    `images` is uint8 [N, 3, 32, 32], `labels` has N integers from 0 to 255. Raises ValueError for
    other shapes.
    """
    if images.dtype != np.uint8 or images.shape[1:] != SHAPE or len(labels) != len(images):
        raise ValueError(
            f"{len(labels)} labels and images {images.dtype} {list(images.shape)}: "
            f"expected uint8 [N, 3, 32, 32] and N labels"
        )
    out = np.empty((len(images), RECORD), np.uint8)
    out[:, 0] = labels
    out[:, 1:] = np.asarray(images).reshape(len(images), -1)
    return out


def sample(record: bytes | np.ndarray) -> Sample:
    """The image, uint8 [3, 32, 32], and the label of one record. A view, where `record` allows it.

    Raises ValueError for another number of bytes.
    """
    pixels = np.frombuffer(record, np.uint8)
    if len(pixels) != RECORD:
        raise ValueError(
            f"a record of {len(pixels)} bytes, expected {RECORD}: is the file cut off?"
        )
    return pixels[1:].reshape(SHAPE), int(pixels[0])
