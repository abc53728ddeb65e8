"""A trace of a GPU, as Kineto writes it."""

import gzip
import json

import pytest

from hpml.record.kept import SHIPPED


@pytest.fixture(scope="session")
def gpu_trace() -> dict:
    """Ten steps of the good loop that the course comes with."""
    return json.loads(gzip.decompress((SHIPPED / "steps_good.pt.trace.json.gz").read_bytes()))
