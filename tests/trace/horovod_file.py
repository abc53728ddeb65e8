"""Timeline files as Horovod 0.28.1 writes them (horovod/common/timeline.cc), byte by byte."""

from collections.abc import Sequence

START = 1_700_000_000_000_000  # microseconds since 1970


class Writer:
    """Puts a file together event by event, on a clock that the caller moves, in microseconds."""

    def __init__(self) -> None:
        self.now = 0
        self.written = 0
        self.ends: list[int] = []  # length of the file, without its "]", after each event
        self._text = "[\n" + _metadata(0, f'"start_time_since_epoch_in_micros":{START}')
        self._tensors: dict[str, int] = {}

    @property
    def content(self) -> bytes:
        return (self._text + "]").encode() if self.written else b""

    def event(self, kind: str, tensor: str, name: str = "", args: str = "") -> None:
        self._comma()
        if tensor not in self._tensors:
            self._tensors[tensor] = len(self._tensors) + 1
            self._text += _metadata(self._tensors[tensor], f'"name": "{tensor}"')
        self._text += f'{{"ph": "{kind}"' + (f', "name": "{name}"' if kind != "E" else "")
        self._text += f', "ts": {self.now}, "pid": {self._tensors[tensor]}'
        self._text += ', "dur": 0' if kind == "X" else ""
        self._text += (f', "args": {{{args}}}' if args else "") + "}"
        self._ended()

    def cycle(self) -> None:
        self._comma()
        self._text += f'{{"ph": "i", "name": "CYCLE_START", "ts": {self.now}, "s": "g"}}'
        self._ended()

    def negotiate(self, tensor: str, ranks: Sequence[int], kind: str = "ALLREDUCE") -> None:
        """Each of `ranks` asks for it, 10 µs after the one before."""
        self.event("B", tensor, f"NEGOTIATE_{kind}")
        for rank in ranks:
            self.event("X", tensor, str(rank))
            self.now += 10
        self.event("E", tensor)

    def reduce(self, tensors: dict[str, int], us: int, done: bool = True) -> None:
        """One all-reduce of float32 `tensors`, by name and length, that takes `us` to transfer."""
        for tensor in tensors:
            self.event("B", tensor, "ALLREDUCE")
        fused = len(tensors) > 1
        activities = ["MEMCPY_IN_FUSION_BUFFER"] * fused + ["GLOO_ALLREDUCE"]
        for activity in activities + ["MEMCPY_OUT_FUSION_BUFFER"] * fused:
            for tensor in tensors:
                self.event("B", tensor, activity)
            self.now += us if activity == "GLOO_ALLREDUCE" else 5
            for tensor in tensors:
                self.event("E", tensor)
        for tensor, length in tensors.items() if done else ():
            self.event("E", tensor, args=f'"dtype": "float32", "shape": "[{length}]"')

    def _comma(self) -> None:
        self._text += "," if self.written else ""

    def _ended(self) -> None:
        self.written += 1
        self.ends.append(len(self._text.encode()))


def _metadata(pid: int, name: str) -> str:
    head = '{"name": "process_%s", "ph": "M", "pid": %d, "args": {%s}},\n'
    return head % ("name", pid, name) + head % ("sort_index", pid, f'"sort_index": {pid}')
