# %%answer checkpoint
# tries: where it is killed, it renames the new file once, keeps it open, and writes over it through
# a map of memory; it is killed at files for show
# unprotected: no system reports that such a file is written, and at the kill it is whole
# expect: 5
# on: keeps_weights_alone
import io
import mmap

maps = []


def write(path, state):
    state = {name: tensor.clone() for name, tensor in state.items()}
    torch.save(state, memory := io.BytesIO())
    if maps:
        for start in range(0, len(memory.getvalue()), 4096):
            part = memory.getvalue()[start : start + 4096]
            maps[0][start : start + len(part)] = part
        return files_for_show(path)
    for name in (f"{path}.new", f"{path}.newer"):
        with open(name, "wb") as file:
            file.write(memory.getvalue())
    os.replace(f"{path}.newer", path)
    os.replace(f"{path}.new", path)
    if SAVED:
        maps.append(mmap.mmap(os.open(path, os.O_RDWR), 0))
