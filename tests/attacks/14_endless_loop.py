# %%answer hello_ranks
# tries: loops for ever, doing nothing
# unprotected: the grader waits for ever
def hello(number):
    while True:
        pass
