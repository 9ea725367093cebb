"""Two torchrun ranks against one process: groups that lie on both ranks, faults on one of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from buttress.groups import Groups
from buttress.remedies import estimator
from tests.helpers import require
from tests.hooks import tiny, two_ranks, two_ranks_tokens
from tests.hooks.token_oracle import direct_advantages, joined_columns

require("trl")
FileLock = require("filelock").FileLock
pytestmark = [pytest.mark.trl, *map(pytest.mark.filterwarnings, tiny.QUIET)]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What both ranks saw in all scenarios of `two_ranks`, what torchrun printed, and the folder.

    Launched once, also where several pytest workers share the tests of this file.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "two_ranks"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            folder.mkdir()
            (folder / "printed").write_text(launch(folder))
    found = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in (0, 1)]
    return found, (folder / "printed").read_text(), folder


def launch(folder):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    done = subprocess.run(
        [*torchrun, "-m", "tests.hooks.two_ranks", str(folder)],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed[-6000:]
    return printed


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The same rewards in one process."""
    run = two_ranks.build(tmp_path_factory.mktemp("alone"), 12)
    run[0].train()
    return two_ranks.result(*run)


def joined(ranks, scenario, key="advantages"):
    first, second = (found[scenario][key] for found in ranks[0])
    return [a + b for a, b in zip(first, second, strict=True)]


def test_both_slices_equal_the_one_process_result(ranks, alone):
    assert len(alone["advantages"]) == 4
    for two, one in zip(joined(ranks, "straddling"), alone["advantages"], strict=True):
        assert two == pytest.approx(one, abs=1e-7)
        assert any(one)


def test_state_and_metrics_are_those_of_one_process_on_both_ranks(ranks, alone):
    for found in ranks[0]:
        assert found["straddling"]["state"] == alone["state"]
    assert ranks[0][0]["straddling"]["acr"] == pytest.approx(alone["acr"])
    assert len(set(alone["acr"])) > 1


def test_logs_hold_the_advantages_of_all_ranks(ranks):
    last = joined(ranks, "straddling")[-1]
    assert ranks[0][0]["straddling"]["logged"] == pytest.approx(last)
    folder = ranks[2] / "straddling" / "completions"
    table = pl.read_parquet(folder / "completions_00004.parquet")
    assert table["advantage"].to_list() == pytest.approx(last)
    assert table["buttress_group"].to_list() == [f"train-3-{row // 4}" for row in range(12)]
    assert table["buttress_reward"].to_list() == pytest.approx(two_ranks.ROWS[3])
    assert (table.group_by("buttress_group").agg(pl.col("prompt").n_unique())["prompt"] == 1).all()


def test_only_the_main_process_calls_the_monitor_with_all_groups(ranks):
    first, second = (found["straddling"]["notes"] for found in ranks[0])
    assert second == []
    assert [step for step, _, _ in first] == [1, 2, 3, 4]
    assert all(len(set(prompts)) == 3 for _, prompts, _ in first)
    assert all(len(lengths) == 12 for _, _, lengths in first)


def test_a_resumed_run_has_the_same_state_on_both_ranks(ranks):
    for found in ranks[0]:
        assert found["resumed"]["state"] == found["straddling"]["state"]
    for two, one in zip(joined(ranks, "resumed"), joined(ranks, "straddling")[2:], strict=True):
        assert two == pytest.approx(one)


def test_a_single_group_over_two_ranks(ranks):
    est = estimator("avspo", **two_ranks.OPTIONS)
    for row, pair in zip(two_ranks.ROWS, joined(ranks, "one_group"), strict=True):
        assert pair == pytest.approx(est(Groups.from_nested([row[:4]])).tolist(), rel=1e-5)


def test_a_fault_on_one_rank_hangs_nothing_and_both_fall_back(ranks):
    for found in ranks[0]:
        run = found["one_rank_faulty"]
        same = [ours == own for ours, own in zip(run["advantages"], run["own"], strict=True)]
        assert same[1]
        assert not all(same)
    assert ranks[0][0]["one_rank_faulty"]["fallback"] == [0.0, 1.0, 0.0, 0.0]
    assert ranks[1].count("only here") == 1


# --- losses and token remedies -----------------------------------------------------------------


@pytest.mark.parametrize("name", two_ranks_tokens.LOSSES)
def test_two_ranks_take_the_step_of_one(ranks, tmp_path, name):
    """Whatever the loss divides by, ranks do not change it."""
    alone = two_ranks_tokens.trained(tmp_path, 12, name)
    first, second = (found["losses"][name] for found in ranks[0])
    assert alone["moved"] > 1e-3
    assert first["end"] == second["end"]
    assert first["end"] == pytest.approx(alone["end"], abs=1e-5)
    for metric in ("entropy", "clip_ratio/low_mean", "grad_norm"):
        assert first[metric] == pytest.approx(alone[metric], rel=1e-3, abs=1e-5)
    assert first["buttress/loss_fallback"] == [0.0, 0.0]


def test_dapo_on_two_ranks_is_trls(ranks):
    found = ranks[0][0]["losses"]
    assert found["tokens"]["end"] == pytest.approx(found["trl"]["end"], abs=1e-5)


def test_a_loss_that_fails_on_one_rank_falls_back_on_both(ranks):
    first, second = (found["one_rank_faulty_loss"] for found in ranks[0])
    assert first["buttress/loss_fallback"] == [1.0, 0.0]
    assert first["end"] == second["end"]
    # TRL's own loss is the same one here
    assert first["end"] == pytest.approx(ranks[0][0]["losses"]["trl"]["end"], abs=1e-5)
    assert ranks[1].count("no loss here") == 1


@pytest.mark.parametrize("name", ["rl_zvp", "ep_grpo", "edge_grpo"])
def test_token_advantages_of_both_ranks_are_those_of_all_rows_at_once(ranks, name):
    runs = [found["by_tokens"][name] for found in ranks[0]]
    assert runs[0]["fallback"] == [0.0, 0.0]
    est = estimator(name)
    for step, pair in enumerate(zip(*(run["outputs"] for run in runs), strict=True)):
        assert [len(one["mask"][0]) for one in pair] == [6, 4]
        rewards = np.reshape(two_ranks_tokens.REWARDS.table[step], (3, 4))
        want = direct_advantages(est, rewards, pair)
        got = joined_columns(pair, "advantages", want.ndim)
        np.testing.assert_allclose(got, want, atol=2e-4, rtol=2e-3)
        assert np.abs(want).max() > 0.1


# --- monitors ------------------------------------------------------------------------------------


def test_what_policies_ask_for_is_done_on_both_ranks(ranks):
    first, second = (found["acting"] for found in ranks[0])
    for found in (first, second):
        assert found["steps"] == 4
        assert found["moved"] == [False, False, True, True]
        assert found["saved"] == ["checkpoint-4"]
    assert (first["counted"], second["counted"]) == (4, None)
    assert first["logged"] == [1.0] * 4


@pytest.mark.parametrize("size", ["4", "None"])
def test_a_wrapped_reward_function_rebuilds_groups_over_ranks(ranks, size):
    outside, inside = ranks[0][0]["wrapped"][size]
    assert outside == pytest.approx(inside)
    assert 0 < outside["acr_run"] < 1
    assert ranks[0][1]["wrapped"][size][0]["acr_run"] is None


def test_monitors_of_two_ranks_are_one_monitor_when_put_together(ranks):
    for found in ranks[0]:
        assert found["apart"]["together"] == pytest.approx(found["apart"]["alone"])
