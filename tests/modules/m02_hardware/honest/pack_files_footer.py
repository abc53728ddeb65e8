# %%answer pack_files
# unusual: the index comes last, and each process opens a buffered file of its own when it reads
import os
import pickle
import struct
import threading
from dataclasses import dataclass
from pathlib import Path

from torch.utils.data import Dataset

FOOTER = struct.Struct("<QQ8s")
MARK = b"the end."


@dataclass
class Entry:
    name: str
    start: int
    size: int


def pack(folder, target):
    folder = Path(folder)
    entries = []
    partial = Path(f"{target}.{os.getpid()}")
    with partial.open("wb") as out:
        paths = {path.relative_to(folder).as_posix(): path for path in folder.glob("**/*")}
        for name, path in sorted(paths.items()):
            if path.is_dir():
                continue
            start = out.tell()
            out.write(path.read_bytes())
            entries.append(Entry(name, start, out.tell() - start))
        start = out.tell()
        pickle.dump([(entry.name, entry.start, entry.size) for entry in entries], out)
        out.write(FOOTER.pack(start, out.tell() - start, MARK))
        out.flush()
        os.fsync(out.fileno())
    partial.replace(target)


class Packed(Dataset):
    def __init__(self, path):
        self.path = str(path)
        self.opened = {}
        self.lock = threading.Lock()
        size = os.path.getsize(path)
        file = self.file()
        file.seek(max(0, size - FOOTER.size))
        footer = file.read()
        if len(footer) != FOOTER.size or not footer.endswith(MARK):
            raise ValueError(f"{self.path} does not end as a pack does")
        start, length, _ = FOOTER.unpack(footer)
        file.seek(start)
        self.entries = [Entry(*entry) for entry in pickle.loads(file.read(length))]

    def file(self):
        if os.getpid() not in self.opened:
            self.opened = {os.getpid(): open(self.path, "rb")}  # noqa: SIM115
        return self.opened[os.getpid()]

    def __getstate__(self):
        return {"path": self.path, "entries": self.entries}

    def __setstate__(self, state):
        self.__dict__ |= state | {"opened": {}, "lock": threading.Lock()}

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, index):
        entry = self.entries[index]
        with self.lock:
            file = self.file()
            file.seek(entry.start)
            return entry.name, file.read(entry.size)
