# %%answer hello_ranks
# tries: reports marks without end over its channel
# unprotected: the grader keeps them all in memory
# on: channel
def hello(number):
    with socket.socket(fileno=os.dup(channel())) as out:
        while True:
            mark = msgpack.packb(["mark", "x", time.monotonic()], use_bin_type=True)
            out.sendall(mark * 10_000)
