"""All that plays answers with Horovod shares a worker: its warm servers take seconds to start."""

from pathlib import Path

import pytest

from ....made_runs import (
    hand_made,
    played,
    solution,
    with_ranks,
    with_taken,
    with_value,
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("horovod"))
