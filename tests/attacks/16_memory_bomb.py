# %%answer hello_ranks
# tries: takes memory without end
# unprotected: the machine runs out of it, and the kernel ends whatever it likes
def hello(number):
    taken = []
    while True:
        taken.append(bytearray(b"x" * 2**24))
