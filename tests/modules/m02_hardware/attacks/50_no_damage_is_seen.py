# %%answer pack_files
# tries: opens whatever it is given, and replaces the drive's function that looks what was refused
# unprotected: nothing is reported, so nothing was accepted
# expect: 13
# on: solution
import sys


class Packed(Packed):
    def __init__(self, path):
        frame = sys._getframe()
        while frame is not None:
            if "damaged" in frame.f_globals:
                frame.f_globals["damaged"] = lambda *_: {}
            frame = frame.f_back
        try:
            super().__init__(path)
        except ValueError:
            self.names = []
