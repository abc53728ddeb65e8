# %%answer hello_ranks
# tries: a SystemExit whose code raises when it is looked at
# unprotected: the handler of SystemExit fails
class Exit(SystemExit):
    @property
    def code(self):
        raise SystemExit(0)


def hello(number):
    raise Exit
