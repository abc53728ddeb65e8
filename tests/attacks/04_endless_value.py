# %%answer hello_ranks
# row: 4
# tries: returns a list that contains itself
# unprotected: whoever walks it never ends
# expect: 0
def hello(number):
    value = [number]
    value.append(value)
    return value
