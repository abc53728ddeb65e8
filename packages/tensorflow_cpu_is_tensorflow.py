"""Makes the wheel beside it: a package `tensorflow` without any files, which needs tensorflow-cpu.

tf_keras asks for the package `tensorflow`, which for Linux on x86-64 is the GPU build: 0.6 GB more,
and in the same folder as tensorflow-cpu, so that of the two the one wins that pip unpacks last.
With this wheel, which requirements.lock takes from this folder, tf_keras is content with the CPU
build. Its version ends in +cpu, as torch's does. For a new version: change it here and in
pyproject.toml, run this file, and make requirements.lock anew.
"""

import zipfile
from pathlib import Path

VERSION = "2.21.0"
NAME = f"tensorflow-{VERSION}+cpu"
TAG = "py3-none-linux_x86_64"
METADATA = f"""\
Metadata-Version: 2.1
Name: tensorflow
Version: {VERSION}+cpu
Summary: Stands for tensorflow-cpu, which is TensorFlow without CUDA under another name
Requires-Dist: tensorflow-cpu=={VERSION}
"""
WHEEL = f"""\
Wheel-Version: 1.0
Generator: {Path(__file__).stem}
Root-Is-Purelib: true
Tag: {TAG}
"""


def write(folder: Path) -> Path:
    """The wheel, the same bytes each time."""
    wheel = folder / f"{NAME}-{TAG}.whl"
    info = f"{NAME}.dist-info"
    files = {f"{info}/METADATA": METADATA, f"{info}/WHEEL": WHEEL}
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(wheel, "w") as packed:
        for name, text in files.items():
            packed.writestr(zipfile.ZipInfo(name), text)  # dated 1980
    return wheel


if __name__ == "__main__":
    print(write(Path(__file__).parent))
