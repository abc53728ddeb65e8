# %%answer hello_ranks
# tries: returns a dict with bytes for keys, half a character, and a tensor without elements
# unprotected: a judge that sorts or prints them raises
# on: channel
def hello(number):
    value = {b"loss": 1, b"\xed\xa0\x80": msgpack.ExtType(1, msgpack.packb(["bool", [0], b""]))}
    event = ["value", msgpack.packb(value)]
    os.write(channel(), msgpack.packb(event, use_bin_type=True))
    time.sleep(60)
