"""Opens or bytes: which binds an epoch on a shared file system."""

import pytest

from hpml.predict.storage_epoch import SharedStorage

STORAGE = SharedStorage(opens_per_second=1_000, latency=4e-3, bandwidth=1e6)


def test_one_client_waits_for_latency_and_service():
    assert STORAGE.rate(1) == pytest.approx(200)  # 4 ms + 1 ms


def test_clients_add_up_until_the_server_is_busy():
    assert [round(STORAGE.rate(clients)) for clients in (1, 2, 4, 5, 50)] == [
        200,
        400,
        800,
        1000,
        1000,
    ]


def test_the_longer_of_opens_and_bytes_is_the_epoch():
    assert STORAGE.epoch_seconds(files=10_000, nbytes=1e6, clients=5) == pytest.approx(10)
    assert STORAGE.epoch_seconds(files=10, nbytes=1e8, clients=5) == pytest.approx(100)
