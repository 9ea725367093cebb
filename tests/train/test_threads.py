"""One thread for a small model on the CPU, and only there."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from buttress.train.threads import SMALL, take_one_if_small


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_a_small_model_takes_one_thread_and_says_so():
    assert "OMP_NUM_THREADS" in take_one_if_small(nn.Linear(8, 8))
    assert torch.get_num_threads() == 1
    assert take_one_if_small(nn.Linear(8, 8)) is None  # nothing left to say


def test_a_large_model_keeps_its_threads():
    assert take_one_if_small(nn.Linear(SMALL, 1, device="cpu")) is None
    assert torch.get_num_threads() == 2


def test_a_model_that_is_not_on_the_cpu_keeps_them():
    assert take_one_if_small(nn.Linear(8, 8, device="meta")) is None
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_a_number_that_the_user_set_stays(monkeypatch, name):
    monkeypatch.setenv(name, "2")
    assert take_one_if_small(nn.Linear(8, 8)) is None
    assert torch.get_num_threads() == 2
