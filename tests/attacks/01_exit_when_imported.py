# %%answer hello_ranks
# row: 1
# tries: leaves the process with exit code 0 before anything is called
# unprotected: who trusts exit codes sees success
# expect: 0
import os

os._exit(0)
