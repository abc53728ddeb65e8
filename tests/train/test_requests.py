"""A signal to any rank is a request to all of them, and to none when nobody listens."""

import os
import signal

import torch

from hpml.train import requests


def test_signals_are_noted_and_answered_once():
    cpu = torch.device("cpu")
    before = signal.getsignal(signal.SIGTERM)
    with requests.listen(True) as asked:
        assert asked.agreed(1, cpu) == requests.NOTHING
        os.kill(os.getpid(), signal.SIGUSR1)
        assert asked.agreed(2, cpu) == requests.SAVE
        assert asked.agreed(3, cpu) == requests.NOTHING
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert asked.agreed(4, cpu) == requests.SAVE_AND_STOP
    assert signal.getsignal(signal.SIGTERM) is before


def test_handlers_are_left_alone_when_nobody_listens():
    before = signal.getsignal(signal.SIGTERM)
    with requests.listen(False):
        assert signal.getsignal(signal.SIGTERM) is before
