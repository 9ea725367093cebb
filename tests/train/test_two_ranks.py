"""The chain on two torchrun ranks: train with three remedies, diagnose, compare; resume; a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import buttress as bt
from buttress.cli import main
from buttress.train import folder
from buttress.train.config import load
from buttress.train.source import Source
from tests.helpers import require
from tests.hooks import tiny
from tests.train import tiny_run, two_ranks

require("trl")
FileLock = require("filelock").FileLock
pytestmark = [pytest.mark.trl, *map(pytest.mark.filterwarnings, tiny.QUIET)]

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}


def launched(*arguments, **more):
    return {
        "args": [*TORCHRUN, *map(str, arguments)],
        "cwd": Path(__file__).parents[2],
        "env": os.environ | ENVIRONMENT,
        "text": True,
        **more,
    }


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """The folder of `two_ranks` after its run, and what was printed; launched once for all."""
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "train_chain"
    with FileLock(f"{place}.lock"):
        if not place.exists():
            tiny_run.prepare(place)
            values = tiny_run.values(place, place / "out", steps=6, prompts=3)
            (place / "run.toml").write_text(tiny_run.toml(values))
            call = launched("-m", "tests.train.two_ranks", place)
            done = subprocess.run(**call, capture_output=True, timeout=300, check=False)
            assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
            (place / "stdout").write_text(done.stdout)
            (place / "stderr").write_text(done.stderr)
    return place


def run(*arguments):
    with pytest.raises(SystemExit) as left:
        main([str(one) for one in arguments])
    return int(left.value.code or 0)


@pytest.mark.parametrize("remedy", two_ranks.REMEDIES)
def test_a_run_of_two_ranks_is_diagnosed_at_once(chain, remedy, capsys):
    assert run("diagnose", chain / remedy, "--json", "--fail-on", "never") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["source"]["rollouts"] == 6 * 12
    assert report["source"]["group_sizes"] == {"4": 18}
    assert report["source"]["steps"] == 6
    rows = tiny_run.rollouts(chain / remedy)
    groups = bt.Groups.from_flat([row["reward"] for row in rows], [row["group"] for row in rows])
    assert report["measures"]["acr"] == pytest.approx(bt.collapse_rate(groups))


@pytest.mark.parametrize("remedy", two_ranks.REMEDIES)
def test_the_logged_advantages_are_the_remedys(chain, remedy):
    estimator = bt.estimator(remedy)
    rows = tiny_run.rollouts(chain / remedy)
    for step in range(1, 7):
        part = [row for row in rows if row["step"] == step]
        names = [row["group"] for row in part]
        prompts = [row["prompt_id"] for row in part[::4]]
        rewards = np.array([row["reward"] for row in part])
        groups = bt.Groups.from_flat(
            rewards, names, prompt_id=[one for one in prompts for _ in "1234"]
        )
        np.testing.assert_allclose([row["advantage"] for row in part], estimator(groups), atol=1e-4)


def test_two_remedies_are_compared(chain, capsys):
    assert run("compare", chain / "grpo", chain / "avspo", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report
    # the same problems in the same order, and the same first generation
    rows = [tiny_run.rollouts(chain / remedy) for remedy in two_ranks.REMEDIES]
    for other in rows[1:]:
        assert [row["prompt"] for row in other] == [row["prompt"] for row in rows[0]]
        assert [r["completion"] for r in other[:12]] == [r["completion"] for r in rows[0][:12]]
    weights = {tiny_run.weights(chain / remedy) for remedy in two_ranks.REMEDIES}
    assert len(weights) == 3


def test_only_the_first_rank_reports(chain):
    lines = [line for line in (chain / "stdout").read_text().splitlines() if line.startswith("{")]
    assert [json.loads(line)["resumed_from"] for line in lines] == [0, 0, 0, 2]


def test_a_resumed_run_of_two_ranks_is_the_uninterrupted_one(chain):
    told = (chain / "stderr").read_text()
    assert all(f"rank {rank} RewardError" in told for rank in (0, 1))
    assert tiny_run.weights(chain / "resumed") == tiny_run.weights(chain / "avspo")
    straight = (chain / "avspo" / "rollouts.jsonl").read_text()
    renamed = straight.replace("reward/digits", "reward/failing")
    assert (chain / "resumed" / "rollouts.jsonl").read_text() == renamed


def test_dynamic_sampling_on_two_ranks(chain):
    rows = tiny_run.rollouts(chain / "dynamic")
    assert len(rows) > 6 * 12
    assert sorted({row["step"] for row in rows}) == [1, 2, 3, 4, 5, 6]
    history = json.loads((chain / "dynamic/trainer_state.json").read_text())["log_history"]
    taken = [line["buttress/sampling/taken"] for line in history if "reward" in line]
    assert taken == [3.0] * 6


def test_a_killed_rank_ends_the_run_and_the_run_goes_on(chain, tmp_path):
    """The second rank is killed after the first checkpoint; nothing written is lost."""
    out = tmp_path / "out"
    flags = ("--out", out, "--steps", 200, "--remedy", "avspo")
    call = launched("-m", "buttress", "train", chain / "run.toml", *flags)
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(**call, stdout=log, stderr=log)
        wait_for(lambda: folder._complete(out), process)
        children = subprocess.run(
            ["ps", "-o", "pid=,args=", "--ppid", str(process.pid)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        workers = sorted(int(line.split()[0]) for line in children if "buttress" in line)
        os.kill(workers[-1], signal.SIGKILL)
        assert process.wait(timeout=120) != 0
    step, _, size = folder._complete(out)
    text = (out / "rollouts.jsonl").read_bytes()
    assert len(text[:size].splitlines()) == step * 12
    assert not (out / "model").exists()
    from buttress.train.run import train

    values = tiny_run.values(chain, out, steps=step + 1, prompts=3, remedy="avspo")
    source = Source(values)
    done = train(load(source), source, resume=True, accept_changes=True)
    assert done.resumed_from == step
    assert [row["step"] for row in tiny_run.rollouts(out)][-12:] == [step + 1] * 12
    assert (out / "rollouts.jsonl").read_bytes().startswith(text[:size])


def wait_for(found, process, seconds=120):
    deadline = time.monotonic() + seconds
    while not found():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
