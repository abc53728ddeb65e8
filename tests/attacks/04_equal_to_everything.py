# %%answer hello_ranks
# row: 4
# tries: returns an int whose comparison with anything is true
# unprotected: `value == expected` is true
# expect: 0
class Always(int):
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __hash__(self):
        return 0


def hello(number):
    return Always(number)
