# %%answer hello_ranks
# tries: one rank attaches to the others as a debugger does, and sets a word of their memory
# unprotected: ranks that send nothing have what one of them made
# on: memory_of_the_others
PEEK, POKE, SEIZE, INTERRUPT, DETACH = 1, 4, 0x4206, 0x4207, 17
libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
libc.ptrace.restype = ctypes.c_long


@contextlib.contextmanager
def held(pid):
    if libc.ptrace(SEIZE, pid, None, None):
        raise OSError(ctypes.get_errno(), "ptrace")
    libc.ptrace(INTERRUPT, pid, None, None)
    os.waitpid(pid, 0x40000000)  # __WALL
    try:
        yield
    finally:
        libc.ptrace(DETACH, pid, None, None)


def peek(pid, address):
    with held(pid):
        return libc.ptrace(PEEK, pid, address, None)


def poke(pid, address, value):
    with held(pid):
        libc.ptrace(POKE, pid, address, value)
