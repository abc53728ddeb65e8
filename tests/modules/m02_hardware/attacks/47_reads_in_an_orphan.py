# %%answer pack_files
# tries: opens a pack by reading all of it, in a process whose parent has ended, into memory that
# both have mapped
# unprotected: opening and samples read nothing, since nobody counts what is not below the rank
# expect: 11
# on: solution
import mmap


class Packed(Packed):
    def __init__(self, path):
        super().__init__(path)
        self.memory = mmap.mmap(-1, os.path.getsize(path))
        done, end = os.pipe()
        child = os.fork()
        if child == 0:
            if os.fork():
                os._exit(0)
            self.memory[:] = os.pread(self.file.fileno(), len(self.memory), 0)
            os._exit(0)
        os.waitpid(child, 0)
        os.close(end)
        os.read(done, 1)  # nothing, when the last process that has the other end is gone
        os.close(done)

    def __getitem__(self, index):
        return self.names[index], self.memory[self.starts[index] : self.starts[index + 1]]

    def __reduce__(self):
        return Packed, (self.path,)
