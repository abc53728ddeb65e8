# %%answer roofline
# tries: loads from their files the counts and the bounds that the check compares with
# unprotected: what is right is in files of the installed package
# on: from_file
def load(name):
    return of_the_course("modules", "m02_hardware", "checks", f"{name}.py")


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
