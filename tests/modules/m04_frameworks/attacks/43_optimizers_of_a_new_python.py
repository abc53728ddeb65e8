# %%answer optimizers
# tries: starts another Python by system calls from a module that is made anew, so that nothing
# refuses them, and lets torch.optim take the steps there
# unprotected: the ready-made steps are the answer
# on: 40_optimizers_of_another_process
import importlib.util
import os


class Started:
    def __init__(self, command, **_):
        spec = importlib.util.find_spec("posix")
        fresh = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(fresh)
        (child_in, to_child), (from_child, child_out) = os.pipe(), os.pipe()
        if os.fork() == 0:
            os.dup2(child_in, 0)
            os.dup2(child_out, 1)
            os.close(to_child)
            try:
                fresh.execv(command[0], command)
            finally:
                os._exit(1)
        os.close(child_in)
        os.close(child_out)
        self.stdin, self.stdout = os.fdopen(to_child, "wb"), os.fdopen(from_child, "rb")


subprocess.Popen = Started
