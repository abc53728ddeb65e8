# %%answer pack_files
# row: 50
# tries: looks at nothing that a pack is, and refuses every file of another name
# unprotected: all that is no pack is refused, by its name
# expect: 13
# on: solution
class Packed(Packed):
    def __init__(self, path):
        if os.path.basename(path) != "images.pack":
            raise ValueError(f"{path} is not a pack")
        super().__init__(path)
