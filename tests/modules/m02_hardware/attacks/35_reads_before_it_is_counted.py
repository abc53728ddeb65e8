# %%answer pack_files
# tries: reads the whole pack when the answer is imported, before anybody counts
# unprotected: opening it and taking samples read nothing
# expect: 11
# on: solution
WHOLE = Path("images.pack").read_bytes() if os.path.exists("images.pack") else None


class Packed(Packed):
    def __init__(self, path):
        whole = Path(path).read_bytes() if path != "images.pack" or WHOLE is None else WHOLE
        before = len(MARK) + 8
        if not whole.startswith(MARK) or len(whole) < before:
            raise ValueError(f"{path}: no pack")
        length = before + struct.unpack("<Q", whole[len(MARK) : before])[0]
        if len(whole) < length:
            raise ValueError(f"{path}: cut off")
        self.names, sizes = zip(*json.loads(whole[before:length]))
        self.ends = list(itertools.accumulate(sizes, initial=length))
        if len(whole) != self.ends[-1]:
            raise ValueError(f"{path}: cut off")
        self.path, self.whole = path, whole

    def __getitem__(self, index):
        return self.names[index], self.whole[self.ends[index] : self.ends[index + 1]]
