# %%answer hello_ranks
# tries: raises an exception whose class, text and notes are megabytes
# unprotected: record and page are megabytes, which no browser and no mail takes
def hello(number):
    print("x" * 3_000_000)
    error = type("x" * 3_000_000, (Exception,), {})("y" * 3_000_000)
    error.add_note("z" * 3_000_000)
    raise error
