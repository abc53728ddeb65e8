# %%answer roofline
# row: 40
# tries: loads from their files the counts and the bounds that the check compares with
# unprotected: what is right is in files of the installed package
# expect: 0
import importlib.util
import os
import sys

ROOM = os.path.join(sys.modules["hpml"].__path__[0], "checks", "m02_hardware")


def load(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(ROOM, f"{name}.py"))
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def named(dtype):
    return str(dtype).removeprefix("torch.")


def matmul(m, k, n, dtype):
    return load("_layer_counts").matmul({"m": m, "k": k, "n": n, "dtype": named(dtype)})


def conv2d(**call):
    return load("_layer_counts").conv2d({**call, "dtype": named(call["dtype"])})


def elementwise(**call):
    return load("_layer_counts").elementwise({**call, "dtype": named(call["dtype"])})


def roofline(**call):
    return tuple(load("_roofs").bound(call))
