"""An image and its label as a `tf.train.Example`, encoded without TensorFlow.

An Example is a protocol buffer: a map from a feature's name to a list of bytes, floats or integers
(tensorflow/core/example/example.proto and feature.proto). A field is its number and kind in one
varint, then its length, then its bytes (https://protobuf.dev/programming-guides/encoding).
"""

import numpy as np

BYTES_LIST, INT64_LIST = 1, 3  # the numbers of these kinds of list in feature.proto


def example(image: np.ndarray, label: int) -> bytes:
    """Features "image", the bytes of `image` in its order, and "label", one integer from 0."""
    return _field(
        1,
        _feature("image", BYTES_LIST, _field(1, image.tobytes()))
        + _feature("label", INT64_LIST, _field(1, _varint(label))),
    )


def _feature(name: str, kind: int, values: bytes) -> bytes:
    """An entry of the map: its key is field 1, its value field 2."""
    return _field(1, _field(1, name.encode()) + _field(2, _field(kind, values)))


def _field(number: int, content: bytes) -> bytes:
    """A field of kind 2, whose length comes before its content."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Seven bits in a byte, the lowest first; the eighth bit: more to come. From 0."""
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])
