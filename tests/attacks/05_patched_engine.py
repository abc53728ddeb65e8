# %%answer hello_ranks
# tries: replaces the engine's encoding, msgpack and the drive's own globals in its process
# unprotected: the grader gets what the answer wants it to get
import sys

msgpack = sys.modules.get("msgpack") or __import__("msgpack")
encoding = sys.modules["hpml.ranks.encoding"]
rank = sys.modules["hpml.ranks.rank.rank"]


class Passed:
    status, earned, points = "passed", 2, 2


def hello(number):
    frame = sys._getframe(1)
    frame.f_globals["expected"] = number
    frame.f_globals["drive"] = lambda *_: number
    encoding.encode = lambda value: msgpack.packb({"status": "passed", "earned": 2, "points": 2})
    rank.encoding.encode = encoding.encode
    return Passed()
