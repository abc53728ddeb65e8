# %%answer hello_ranks
# tries: reports on the rank's own channel that it returned, then exits with code 0
# unprotected: a grader that trusts a rank's report `returned` sees success
# on: channel
encoding = sys.modules["hpml.ranks.encoding"]


def hello(number):
    event = ["value", encoding.encode({"passed": True, "points": 2})]
    os.write(channel(), msgpack.packb(event, use_bin_type=True))
    os._exit(0)
