# %%answer hello_ranks
# tries: returns a gigabyte, byte by byte as small as it can be made in its own process
# unprotected: four ranks' gigabytes, and their copies, fill the grader's memory
# on: channel
SIZE = 2**30 - 100


def hello(number):
    head = b"\x92\xa5value\xc6" + (SIZE + 5).to_bytes(4, "big")
    with socket.socket(fileno=os.dup(channel())) as out:
        out.sendall(head + b"\xc6" + SIZE.to_bytes(4, "big"))
        for _ in range(1024):
            out.sendall(bytes(2**20))
    time.sleep(60)
