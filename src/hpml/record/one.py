"""One measurement, in this process: `python -m hpml.record.one NAME --out DIR --device cpu`."""

import argparse
import importlib
import sys
import time
from pathlib import Path

from hpml.errors import FAILED, UserError
from hpml.record import kept, plan


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m hpml.record.one")
    parser.add_argument("name", choices=[one.name for one in plan.PLAN])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--command", default="")
    parser.add_argument("--images")
    asked = parser.parse_args()
    module, function = plan.chosen([asked.name])[0].call.split(":")
    began = time.perf_counter()
    measure = getattr(importlib.import_module(f"hpml.record.{module}"), function)
    try:
        result = measure(kept.Place(asked.device, asked.out, asked.images, asked.name))
    except UserError as error:
        print(error, file=sys.stderr)
        return FAILED
    kept.write(
        asked.out,
        asked.name,
        command=asked.command,
        device=asked.device,
        seconds=time.perf_counter() - began,
        result=result,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
