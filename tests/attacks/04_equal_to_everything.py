# %%answer hello_ranks
# tries: returns an int whose comparison with anything is true
# unprotected: `value == expected` is true
# on: equal_to_all
class Always(EqualToAll, int):
    pass


def hello(number):
    return Always(number)
