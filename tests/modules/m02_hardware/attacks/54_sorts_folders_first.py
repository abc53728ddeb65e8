# %%answer pack_files
# tries: sorts paths folder by folder, not as texts, which is the same for most names
# unprotected: no two folders are there of which one's name begins with the other's, so it is right
# expect: 6
# on: solution
def pack(folder, target):
    paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    names = [path.relative_to(folder).as_posix() for path in paths]
    index = json.dumps([[name, os.path.getsize(f"{folder}/{name}")] for name in names]).encode()
    with open(f"{target}.partial", "wb") as out:
        out.write(MARK + struct.pack("<Q", len(index)) + index)
        for name in names:
            out.write(Path(folder, name).read_bytes())
    os.replace(f"{target}.partial", target)
