# %%answer hello_ranks
# tries: connects to the outside, and to every port and the listeners by name on this machine
# unprotected: it downloads an answer, or speaks to other people's processes
import contextlib
import socket

OUTSIDE = [("192.0.2.1", 80), ("192.0.2.1", 443)]  # of documentation: nobody is there


def hello(number):
    for line in open("/proc/net/unix"):
        if "hpml-canary" in line:
            with socket.socket(socket.AF_UNIX) as own, contextlib.suppress(OSError):
                own.connect(line.split()[-1].replace("@", "\0"))
                own.sendall(b"pwned")
    for address in OUTSIDE:
        with contextlib.suppress(OSError), socket.socket() as out:
            out.settimeout(0.2)
            out.connect(address)
    with socket.socket() as mine:
        mine.bind(("127.0.0.1", 0))
        name = socket.gethostname()
        for port in range(1024, 65536, 1):
            with contextlib.suppress(OSError), socket.socket() as inside:
                inside.settimeout(0.05)
                inside.connect(("127.0.0.1", port))
    return len(name)
