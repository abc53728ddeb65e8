# %%answer checkpoint
# tries: writes files for show, one of which it hopes to be killed at; then it removes the old file
# and writes the new one
# unprotected: a check that kills at the first writing leaves the old file
# expect: 5
# on: keeps_weights_alone
in_place = write


def write(path, state):
    with open(f"{path}.show", "wb") as file:
        file.write(bytes(2**18))
    os.remove(file.name)
    in_place(path, state)
