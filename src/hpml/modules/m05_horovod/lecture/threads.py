"""Which setting gives a framework its second thread: each is tried on the serial scripts."""

from collections.abc import Mapping
from dataclasses import dataclass

from hpml.frameworks.run import run

ONE = {
    name: "1" for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
}
TF, OMP = {"TF_NUM_INTRAOP_THREADS": "2"}, {"OMP_NUM_THREADS": "2"}
TRIALS: Mapping[str, tuple[Mapping[str, str], ...]] = {
    "serial_keras": (TF, OMP),
    "serial_torch": (OMP, {**OMP, "KMP_BLOCKTIME": "0"}),
}
IMAGES = 2_500
CLEAR = 1.1  # times as fast: more than two runs of the same differ


@dataclass(frozen=True)
class Threads:
    """`one`: images/s of each script with one thread. `gains`: how many times as fast it is with
    each setting, by script and setting."""

    one: dict[str, float]
    gains: dict[tuple[str, str], float]

    def __str__(self) -> str:
        lines = []
        for script, rate in self.one.items():
            lines.append(f"{script}: {rate:6.0f} images/s with one thread")
            lines += [
                f"  {setting:36} {gain:.2f} times as fast"
                for (of, setting), gain in self.gains.items()
                if of == script
            ]
        return "\n".join(lines)

    @property
    def held(self) -> bool:
        """Whether Keras follows TensorFlow's variables alone, and PyTorch OpenMP's."""
        keras, keras_omp, torch_omp, _ = self.gains.values()
        return keras > CLEAR and torch_omp > CLEAR and keras_omp < CLEAR


def compare() -> Threads:
    """Train by each script with one thread, then with each setting. Takes a minute.

    Raises UserError where a script fails.
    """
    one, gains = {}, {}
    for script, trials in TRIALS.items():
        one[script] = _images_per_second(script, ONE)
        for change in trials:
            setting = ", ".join(f"{name}={value}" for name, value in change.items())
            gains[script, setting] = _images_per_second(script, {**ONE, **change}) / one[script]
    return Threads(one, gains)


def _images_per_second(script: str, environment: Mapping[str, str]) -> float:
    return run(script, images=IMAGES, epochs=1, environment=environment).images_per_second
