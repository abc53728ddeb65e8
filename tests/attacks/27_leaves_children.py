# %%answer hello_ranks
# row: 27
# tries: nothing: it is right, and uses processes of its own, one of which stays
# unprotected: a grader that waits for all of them waits for ever
# expect: full
import subprocess
import sys

import torch
import torch.distributed as dist


def hello(number):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    total = torch.tensor(number)
    dist.all_reduce(total)
    return total.item()
