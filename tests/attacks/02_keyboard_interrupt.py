# %%answer hello_ranks
# row: 2
# tries: KeyboardInterrupt, as if the instructor had pressed Ctrl-C
# unprotected: the whole batch stops
# expect: 0
def hello(number):
    raise KeyboardInterrupt
