"""Mesh-TensorFlow's own example under several layouts: slices, and bytes that are added up.

It wants a process of its own: the package (0.1.21, of 2022) needs the graph mode of TensorFlow 1,
which is for the whole process, and three things that TensorFlow has since removed (`stand_in`).
The example is that of its README: y = relu(x w1) w2, with its images as one dimension. It runs
forward and backward on a mesh of 2 × 2 virtual CPU devices, in the graph's order, on one machine.
HPML_LAYOUTS is JSON: {name: {dimension of a tensor: dimension of the mesh}}. HPML_STEP is the
source of a function `step`: what is computed.
"""

import inspect
import json
import os
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hpml.frameworks import run as frameworks
from hpml.frameworks import task

SCRIPT = Path(__file__)  # it runs in a process of its own
MESH = {"rows": 2, "cols": 2}
SIZES = {"batch": 8, "inputs": 16, "hidden": 32, "classes": 4}
TENSORS = {
    "x": ("batch", "inputs"),
    "w1": ("inputs", "hidden"),
    "h": ("batch", "hidden"),
    "w2": ("hidden", "classes"),
    "y": ("batch", "classes"),
}
DEVICES = 4
FLOAT32 = 4  # bytes


def stand_in() -> None:
    """Give Mesh-TensorFlow what it imports and TensorFlow 2.21 no longer has.

    The empty classes that it derives from, and two functions that registered its tensors: one has
    moved, the other has nothing to do any more.
    """
    import tensorflow as tf
    from tensorflow.python.framework import ops, tensor_conversion_registry

    estimator = types.ModuleType("tensorflow.compat.v1.estimator")
    for name in ("CheckpointSaverListener", "CheckpointSaverHook", "SessionRunHook"):
        setattr(estimator, name, type(name, (), {}))
    sys.modules[estimator.__name__] = estimator
    tf.compat.v1.estimator = estimator
    ops.register_tensor_conversion_function = (
        tensor_conversion_registry.register_tensor_conversion_function
    )
    ops.register_dense_tensor_like_type = lambda *_: None


def values() -> dict[str, np.ndarray]:
    """x, w1 and w2, float32; the same ones each time."""
    draw = np.random.default_rng(0).standard_normal
    shapes = {name: [SIZES[d] for d in TENSORS[name]] for name in ("x", "w1", "w2")}
    return {name: draw(shape).astype(np.float32) for name, shape in shapes.items()}


def alone(x: np.ndarray, w1: np.ndarray, w2: np.ndarray) -> list[np.ndarray]:
    """y, and the gradients of sum(y²) for w1 and w2, on one device."""
    h = np.maximum(x @ w1, 0)
    y = h @ w2
    return [y, x.T @ ((2 * y @ w2.T) * (h > 0)), h.T @ (2 * y)]


def told(
    step: Callable[..., list[Any]], layouts: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, Any]]:
    """What `run` returns of each of the layouts, by a process of its own.

    `step(mtf, x, w1, w2, batch, hidden, classes)` has the package, three of its tensors and three
    of its dimensions, and returns y and the gradients of sum(y²) for w1 and w2. Raises UserError as
    `hpml.frameworks.run.told` does.
    """
    given = {"HPML_LAYOUTS": json.dumps(layouts), "HPML_STEP": inspect.getsource(step)}
    return frameworks.told(SCRIPT, environment=given)


def run(step: Callable[..., list[Any]], layout: Mapping[str, str]) -> dict[str, Any]:
    """Each tensor's slice on a device, the bytes that a device has in sums, forward and backward,
    by dimension of the mesh, and how far results are from those of one device."""
    import mesh_tensorflow as mtf
    import tensorflow as tf

    tf.compat.v1.reset_default_graph()
    mesh = mtf.Mesh(mtf.Graph(), "mesh")
    dimension = {name: mtf.Dimension(name, size) for name, size in SIZES.items()}
    shape = {name: mtf.Shape([dimension[d] for d in dims]) for name, dims in TENSORS.items()}
    given = values()
    x, w1, w2 = (
        mtf.import_tf_tensor(mesh, tf.constant(value), shape=shape[name])
        for name, value in given.items()
    )
    y, *gradients = step(mtf, x, w1, w2, *(dimension[d] for d in ("batch", "hidden", "classes")))

    rules = ";".join(f"{name}:{over}" for name, over in layout.items())
    devices = [f"cpu:{number}" for number in range(DEVICES)]
    placed = mtf.placement_mesh_impl.PlacementMeshImpl(
        ";".join(f"{name}:{size}" for name, size in MESH.items()), rules, devices
    )
    lowering = mtf.Lowering(mesh.graph, {mesh: placed})
    wanted = [lowering.export_to_tf_tensor(one) for one in (y, *gradients)]
    settings = tf.compat.v1.ConfigProto(device_count={"CPU": DEVICES})
    with tf.compat.v1.Session(config=settings) as session:
        got = session.run(wanted)

    summed = dict.fromkeys(MESH, 0)
    for key, count in lowering.counters:  # "allreduce/[0]/einsum_op", numbers of all devices
        if key.startswith("allreduce/[") and key.endswith("/einsum_op"):
            over = list(MESH)[int(key.split("[")[1].split("]")[0])]
            summed[over] += int(count) * FLOAT32 // DEVICES
    return {
        "slices": {name: list(placed.slice_shape(one)) for name, one in shape.items()},
        "summed": summed,
        "apart": max(float(np.abs(a - b).max()) for a, b in zip(got, alone(**given), strict=True)),
    }


def main() -> None:
    import tensorflow as tf

    stand_in()
    tf.compat.v1.disable_v2_behavior()
    names: dict[str, Any] = {}
    exec(os.environ["HPML_STEP"], names)
    layouts = json.loads(os.environ["HPML_LAYOUTS"])
    task.tell({name: run(names["step"], layout) for name, layout in layouts.items()})


if __name__ == "__main__":
    main()
