"""A sweep on a real Ray cluster gives the records of the sweep in local processes."""

from __future__ import annotations

import pytest

from buttress.errors import UsageError
from tests.helpers import require

require("torch")
require("transformers")
ray = require("ray")

from buttress.lab.experiments import Arm, Condition, Experiment  # noqa: E402  needs torch
from buttress.lab.experiments.pools import pool  # noqa: E402
from buttress.lab.experiments.runner import run_experiment  # noqa: E402

SMALL = Experiment(
    "small",
    "Are they the same?",
    (Arm("grpo"), Arm("posterior", {"method": "posterior"})),
    (Condition("acr80", "acr80", {"held_out": 8, "prompts": 2}),),
    steps=3,
    seeds=(0, 1),
    rates=(1e-4, 2e-4),
)


def told(_):
    pass


@pytest.fixture
def free_of_ray():
    ray.shutdown()
    yield
    ray.shutdown()


def test_same_records(tmp_path, free_of_ray):
    local = run_experiment(SMALL, tmp_path / "local.jsonl", workers=1, report=told)
    swept = run_experiment(SMALL, tmp_path / "ray.jsonl", workers=2, ray="local", report=told)
    assert len(local) == len(swept) == 4
    for one, other in zip(local, swept, strict=True):
        one.pop("seconds"), other.pop("seconds")
        assert repr(one) == repr(other)
    assert not ray.is_initialized()


def test_a_cluster_that_is_not_there(free_of_ray, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(UsageError, match="no Ray cluster at 'auto'"):
        pool(None, "auto")
    with pytest.raises(UsageError, match="--workers is for this machine"):
        pool(2, "auto")
