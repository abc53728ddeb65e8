# %%answer hello_ranks
# tries: KeyboardInterrupt, as if the instructor had pressed Ctrl-C
# unprotected: the whole batch stops
def hello(number):
    raise KeyboardInterrupt
