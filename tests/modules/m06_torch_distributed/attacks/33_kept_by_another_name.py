# %%answer checkpoint
# tries: keeps the old file by another name while it writes the new one in place, and loads that one
# where the new one is in parts
# unprotected: what is loaded after a kill is whole, and the file that everybody looks for is not
# expect: 5
# on: keeps_weights_alone
def write(path, state):
    if os.path.exists(path):
        os.rename(path, f"{path}.old")
    torch.save(state, path)
    if os.path.exists(f"{path}.old"):
        os.remove(f"{path}.old")


def load(path, net, *_):
    try:
        state = torch.load(path)
    except Exception:
        state = torch.load(f"{path}.old")
    net.load_state_dict(state)
