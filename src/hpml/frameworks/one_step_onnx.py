"""The network's forward pass in ONNX Runtime, from what PyTorch exported. It cannot train."""

import os

import torch

from hpml.frameworks import onnx_export
from hpml.frameworks.one_step import Given, Running, torch_network


def runtime(given: Given) -> Running:
    """ONNX Runtime with as many threads as OMP_NUM_THREADS has. UserError where it is missing."""
    with onnx_export.quiet():
        file = torch.onnx.export(
            torch_network(given).eval(),
            (torch.from_numpy(given.images),),
            dynamo=True,
            input_names=[onnx_export.IMAGES],
        ).model_proto
    session = onnx_export.session(file, int(os.environ.get("OMP_NUM_THREADS", 1)))
    return Running(lambda: session.run(None, {onnx_export.IMAGES: given.images})[0])
