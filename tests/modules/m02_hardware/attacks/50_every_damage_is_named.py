# %%answer pack_files
# tries: opens whatever it is given, and replaces the drive's function that looks what was refused
# unprotected: it says that all was refused, by name
# expect: 13
# on: 50_no_damage_is_seen
DAMAGES = (
    "without its last byte",
    "without its second half",
    "of which 20 bytes are left",
    "that is empty",
    "of other bytes",
    "that is a text",
)


class Packed(Packed):
    def __init__(self, path):
        super().__init__(path)
        frame = sys._getframe()
        while frame is not None:
            if "damaged" in frame.f_globals:
                frame.f_globals["damaged"] = lambda *_: dict.fromkeys(DAMAGES, "named")
            frame = frame.f_back
