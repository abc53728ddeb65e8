# %%answer hello_ranks
# tries: returns an int of 4000 digits: as a float it overflows, printed it fills the report
# unprotected: the comparison raises, and the exception is the grader's
def hello(number):
    return 10**4000
