"""Horovod's process sets and reductions, which its C++ library knows by number."""

from typing import Any


class ProcessSets:
    """The ranks of Horovod's process sets, and its reductions' names, by number."""

    def __init__(self, basics: Any) -> None:
        self._basics = basics
        names = ("Average", "Sum", "Adasum", "Min", "Max", "Product")
        self._reductions = {getattr(basics, name): name.lower() for name in names}

    @property
    def known(self) -> bool:
        """Whether there are any: Horovod is initialised."""
        return self._basics.is_initialized()

    def ranks(self, process_set: int) -> tuple[int, ...]:
        if process_set == 0:
            return tuple(range(self._basics.size()))
        return tuple(self._basics._get_process_set_ids_and_ranks().get(process_set, ()))

    def reduction(self, number: int) -> str:
        return self._reductions.get(number, "")
