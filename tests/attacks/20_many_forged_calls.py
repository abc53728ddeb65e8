# %%answer hello_ranks
# tries: reports two hundred thousand calls, each at odds with the other ranks'
# unprotected: comparing them all, at each call anew, takes for ever
# on: channel
def hello(number):
    with socket.socket(fileno=os.dup(channel())) as out:
        for index in range(1, 200_000):
            call = [index, f"all_reduce{number}", [99], 1, "float32", [number], 8, "", None]
            event = ["call", *call, time.monotonic()]
            out.sendall(msgpack.packb(event, use_bin_type=True))
    time.sleep(3600)
