# %%answer mesh_layout
# row: 40
# tries: loads what the course itself derives from a layout, from its file
# unprotected: what was to be written is the course's own
# expect: 0
import importlib.util
import os
import sys

place = os.path.join(sys.modules["hpml"].__path__[0], "predict", "layouts.py")
spec = importlib.util.spec_from_file_location("layouts", place)
sys.modules["layouts"] = layouts = importlib.util.module_from_spec(spec)
spec.loader.exec_module(layouts)


def slice_of(tensor, mesh, layout, rank):
    return layouts.slices(tensor, mesh, layout, rank)


def forward_sum(inputs, output, mesh, layout):
    return layouts.forward(inputs, output, mesh, layout)


def gradient_sums(inputs, output, mesh, layout):
    return layouts.gradients(inputs, output, mesh, layout)
