# %%answer hello_ranks
# tries: reports calls in groups that do not exist, of ranks that do not exist, and waits for them
# unprotected: the search for what is wrong fails, and with it the grader
# on: channel
def hello(number):
    out = channel()
    for index, what in enumerate(("all_reduce", "send", "recv", "recv_anysource"), 1):
        call = [index, what, [7, 99, -1], 2**40, "float32", [2], 8, "to nobody", None]
        os.write(out, msgpack.packb(["call", *call, time.monotonic()], use_bin_type=True))
        os.write(out, msgpack.packb(["wait", index, time.monotonic()], use_bin_type=True))
    time.sleep(3600)
