# %%answer hello_ranks
# tries: reports calls whose names are markup, at odd times and of impossible sizes
# unprotected: the drawing of what the ranks did breaks, or runs a script
# on: channel
def hello(number):
    out = channel()
    bad = "</text></svg><script>pwned()</script>\x1b[2J"
    for index in range(1, 50):
        call = [index, bad * 40, [0, 1, 99], -(2**62), bad, [-1] * 50, -1, bad, 2**62]
        os.write(out, msgpack.packb(["call", *call, time.monotonic()], use_bin_type=True))
        os.write(out, msgpack.packb(["mark", bad, time.monotonic()], use_bin_type=True))
    return number
