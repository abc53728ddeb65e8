# %%answer hello_ranks
# row: 4
# tries: returns an int of 4000 digits: as a float it overflows, printed it fills the report
# unprotected: the comparison raises, and the exception is the grader's
# expect: 0
def hello(number):
    return 10**4000
