# %%answer pack_files
# unusual: numpy's memmap and an index of two arrays; samples are lists and memoryviews
import json
import os

import numpy as np


def pack(folder, target):
    names = []
    for where, _, files in os.walk(folder):
        inner = os.path.relpath(where, folder)
        names += [file if inner == "." else f"{inner}/{file}" for file in files]
    names.sort()
    contents = [np.fromfile(f"{folder}/{name}", dtype=np.uint8) for name in names]
    ends = np.cumsum([len(content) for content in contents], dtype=np.int64)
    text = json.dumps({"names": names, "ends": ends.tolist()}).encode()
    head = np.array([0x5041434B, len(text)], dtype=np.int64)
    with open(target + "~", "wb") as out:
        for part in (head.tobytes(), text, *contents):
            out.write(part)
    os.replace(target + "~", target)


class Packed:
    def __init__(self, path):
        self.path = path
        head = np.fromfile(path, dtype=np.int64, count=2)
        if len(head) < 2 or head[0] != 0x5041434B:
            raise ValueError(path + ": not made by pack")
        first = 16 + int(head[1])
        if os.stat(path).st_size < first:
            raise ValueError(path + ": incomplete")
        index = json.loads(np.fromfile(path, dtype=np.uint8, count=head[1], offset=16).tobytes())
        self.names = index["names"]
        self.ends = np.array([0, *index["ends"]]) + first
        if os.stat(path).st_size != self.ends[-1]:
            raise ValueError(path + ": incomplete")
        self.data = np.memmap(path, dtype=np.uint8, mode="r")

    def __getstate__(self):
        return {**self.__dict__, "data": None}

    def __setstate__(self, state):
        self.__dict__ = state
        self.data = np.memmap(self.path, dtype=np.uint8, mode="r")

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return [self.names[index], memoryview(self.data[self.ends[index] : self.ends[index + 1]])]
