# %%answer pack_files
# unusual: a map of memory, an index of lengths before names, and the mark at the end as well
import mmap
import os
import struct
import tempfile

MARK = b"\x89PK\r\n\x1a\n\0"


def pack(folder, target):
    found = {}
    for where, _, files in os.walk(folder):
        for file in files:
            path = os.path.join(where, file)
            found[os.path.relpath(path, folder).replace(os.sep, "/")] = path
    fd, partial = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(target)))
    with open(fd, "wb") as out:
        out.write(MARK + struct.pack(">I", len(found)))
        for name in sorted(found):
            encoded = name.encode()
            out.write(struct.pack(">HQ", len(encoded), os.stat(found[name]).st_size) + encoded)
        for name in sorted(found):
            with open(found[name], "rb") as file:
                while block := file.read(2**16):
                    out.write(block)
        out.write(MARK)
    os.rename(partial, target)


class Packed:
    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size < 2 * len(MARK) + 4:
                raise ValueError(f"{path}: too short for a pack")
            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if self.map[: len(MARK)] != MARK:
            raise ValueError(f"{path}: no pack")
        if self.map[-len(MARK) :] != MARK:
            raise ValueError(f"{path}: its end is missing")
        (number,) = struct.unpack_from(">I", self.map, len(MARK))
        at, self.names, sizes = len(MARK) + 4, [], []
        for _ in range(number):
            length, size = struct.unpack_from(">HQ", self.map, at)
            at += 10
            self.names.append(self.map[at : at + length].decode())
            sizes.append(size)
            at += length
        self.spans = []
        for size in sizes:
            self.spans.append((at, at + size))
            at += size

    def __len__(self):
        return len(self.spans)

    def __getitem__(self, index):
        start, end = self.spans[index]
        return self.names[index], self.map[start:end]

    def __getstate__(self):
        return self.path

    def __setstate__(self, path):
        self.__init__(path)
