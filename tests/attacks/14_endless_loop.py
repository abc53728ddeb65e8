# %%answer hello_ranks
# row: 14
# tries: loops for ever, doing nothing
# unprotected: the grader waits for ever
# expect: 0
def hello(number):
    while True:
        pass
