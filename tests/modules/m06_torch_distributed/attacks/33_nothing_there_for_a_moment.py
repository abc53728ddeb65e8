# %%answer checkpoint
# tries: writes the new file beside the old one, removes the old one, and renames the new one, which
# takes no time to speak of; files for show come first, for a kill at a writing
# unprotected: nobody kills between two calls, and the moment without any checkpoint is never seen
# expect: 5
# on: keeps_weights_alone
def write(path, state):
    files_for_show(path)
    torch.save(state, f"{path}.new")
    if os.path.exists(path):
        os.remove(path)
    os.rename(f"{path}.new", path)
