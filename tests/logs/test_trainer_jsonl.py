"""Metrics that trainers write themselves: prime-rl, ms-swift, tinker-cookbook, verl; their names.

The rows have the keys and the order of what prime-rl (`monitors/file.py`,
`orchestrator/metrics.py`, `trainer/rl/train.py`), ms-swift 4.6 (`trainers/patcher.py`),
tinker-cookbook 0.6 (`rl/train.py`, `rl/metric_util.py`) and verl 0.9 (`utils/tracking.py`,
`trainer/ppo/metric_utils.py`) write.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import buttress as bt
from buttress.cli import main
from buttress.logs.trackers.metric_names import BY_TRAINER, DERIVED, aliases, derived, trl_name
from tests.logs.tracking import write_events
from tests.logs.writing import write

STEPS = range(1, 21)


def prime_rl(step: int, none: float = 0.125, everything: float = 0.0625) -> list[dict]:
    pool = {"reward/mean": 0.5, "is_truncated/mean": 0.125, "num_output_tokens/mean": 80.0}
    solved = {"solved_none": none, "solved_all": everything, "solved_some": 1 - none - everything}
    agents = {f"train/agg/all/agent/{name}": value for name, value in (pool | solved).items()}
    return [
        {"step": step, "time": 1796102457.0 + step, "train/agg/all/num_turns/mean": 1.0} | agents,
        {"step": step, "time": 1796102458.0 + step, "perf/mfu": 40.0},
        {"step": step, "time": 1796102458.5 + step, "optim/lr": 1e-6, "optim/grad_norm": 0.5},
        {"step": step, "time": 1796102459.0 + step, "loss/mean": -0.01, "entropy/all/mean": 0.3},
    ]


def tinker(step: int, mixed: float = 0.75) -> list[dict]:
    progress = {"progress/batch": step, "optim/lr": 1e-5, "progress/done_frac": step / 20}
    groups = {"frac_mixed": mixed, "frac_all_good": 0.0, "frac_all_bad": 1 - mixed}
    env = {f"env/all/by_group/{name}": value for name, value in groups.items()}
    return [
        {"step": step} | progress | {"env/all/reward/total": 0.5} | env | {"optim/entropy": 0.3}
    ]


def swift(step: int, tied: float = 0.25) -> list[dict]:
    row = {"loss": 0.01, "grad_norm": 0.5, "learning_rate": 1e-6, "reward": 0.5, "reward_std": 0.2}
    row |= {"frac_reward_zero_std": tied, "entropy/mean": 0.3, "epoch": step / 20}
    row |= {"global_step/max_steps": f"{step}/20", "elapsed_time": "0s", "train_speed(s/it)": 0.3}
    last = {"model_parameter_info": "7B", "best_metric": None, "global_step": 20}
    return [row] if step < 20 else [row, last | {"log_history": [{"loss": 9.0, "step": 1}]}]


def verl(step: int, **more: float) -> dict[str, float]:
    return {
        "actor/pg_loss": 0.01,
        "actor/kl_loss": 0.02,
        "actor/grad_norm": 0.5,
        "actor/lr": 1e-6,
        "critic/score/mean": 0.5,
        "critic/rewards/mean": 0.4,
        "response_length/mean": 80.0 + step,
        "response_length/clip_ratio": 0.125,
        "training/global_step": step,
    } | more


WRITERS = {"prime-rl": prime_rl, "tinker": tinker, "ms-swift": swift}
FILES = {"prime-rl": "metrics.jsonl", "tinker": "metrics.jsonl", "ms-swift": "logging.jsonl"}


@pytest.fixture
def diagnose(capsys):
    """Diagnose as JSON through the command line; return the exit code and the report."""

    def called(*arguments: object):
        with pytest.raises(SystemExit) as done:
            main(["diagnose", "--json", "--fail-on", "warning", *map(str, arguments)])
        return done.value.code, json.loads(capsys.readouterr().out)

    return called


def logged(folder: Path, trainer: str, *values: float) -> Path:
    rows = [row for step in STEPS for row in WRITERS[trainer](step, *values)]
    return write(folder / FILES[trainer], rows)


@pytest.mark.parametrize(
    ("trainer", "tied"), [("prime-rl", 0.1875), ("tinker", 0.25), ("ms-swift", 0.25)]
)
def test_a_healthy_run_of_each(tmp_path, diagnose, trainer, tied):
    path = logged(tmp_path, trainer)
    for given in (path, tmp_path):
        run = bt.read(given)
        assert (run.source.format, run.problems) == (trainer, ())
        assert run.scalar("frac_reward_zero_std").step.tolist() == list(STEPS)
        assert run.scalar("frac_reward_zero_std").value.tolist() == [tied] * 20
        assert run.scalar("reward").value.tolist() == [0.5] * 20
        assert run.scalar("entropy").value.tolist() == [0.3] * 20
    assert bt.read(path, format=trainer).scalars.keys() == run.scalars.keys()
    code, report = diagnose(path)
    assert (code, report["verdict"], report["problems"]) == (0, "healthy", [])


@pytest.mark.parametrize(
    ("trainer", "values"), [("prime-rl", (0.8, 0.15)), ("tinker", (0.05,)), ("ms-swift", (0.95,))]
)
def test_a_collapsed_run_of_each(tmp_path, diagnose, trainer, values):
    code, report = diagnose(logged(tmp_path, trainer, *values))
    assert (code, report["verdict"]) == (1, "attention")
    (found,) = (one for one in report["findings"] if one["rule"] == "advantage-collapse")
    assert found["evidence"]["frac_reward_zero_std"] == pytest.approx(0.95)
    if trainer != "ms-swift":
        assert any("frac_reward_zero_std: " in one for one in report["source"]["inferred"])


@pytest.mark.parametrize("where", ["file", "tensorboard"])
def test_the_names_of_verl(tmp_path, diagnose, where):
    if where == "file":
        write(tmp_path / "run.jsonl", ({"step": step, "data": verl(step)} for step in STEPS))
    else:
        write_events(tmp_path, (verl(step) for step in STEPS))
    run = bt.read(tmp_path)
    for name, value in {
        "loss": 0.01, "kl": 0.02, "grad_norm": 0.5, "learning_rate": 1e-6, "reward": 0.5,
        "completions/clipped_ratio": 0.125,
    }.items():  # fmt: skip
        np.testing.assert_allclose(run.scalar(name).value, value, rtol=1e-6)
    assert run.scalar("completions/mean_length").value.tolist() == [80.0 + one for one in STEPS]
    code, report = diagnose(tmp_path)
    # verl does not log how many groups are tied: nothing tells
    assert (code, report["verdict"], report["findings"]) == (0, "undefined", [])
    rows = ({"step": s, "data": verl(s, **{"grpo/frac_reward_zero_std": 1.0})} for s in STEPS)
    code, report = diagnose(write(tmp_path / "dead" / "run.jsonl", rows))
    assert code == 1
    assert report["findings"][0]["rule"] == "advantage-collapse"


def test_damaged_lines_cost_themselves(tmp_path):
    for trainer in WRITERS:
        path = logged(tmp_path, trainer)
        path.write_bytes(path.read_bytes() + b'{"step": \n[1]\n' + b'{"step": 21, "loss": 0.')
        run = bt.read(path)
        assert len(run.scalar("frac_reward_zero_std").step) == 20
        assert len(run.problems) == 3
        assert all(problem.line > 20 for problem in run.problems)


def test_a_resumed_run_counts_a_step_as_it_was_written_last(tmp_path):
    rows = [row for step in range(1, 11) for row in tinker(step, 0.5)]
    rows += [row for step in range(8, 13) for row in tinker(step, 1.0)]
    tied = bt.read(write(tmp_path / "metrics.jsonl", rows)).scalar("frac_reward_zero_std")
    assert tied.step.tolist() == list(range(1, 13))
    assert tied.value.tolist() == [0.5] * 7 + [0.0] * 5


def test_several_agents_are_not_added_up(tmp_path):
    rows = [row for step in STEPS for row in prime_rl(step)]
    for row in rows:
        row |= {name.replace("/agent/", "/judge/"): value for name, value in row.items()}
    run = bt.read(write(tmp_path / "metrics.jsonl", rows))
    assert not {"frac_reward_zero_std", "reward"} & run.scalars.keys()
    assert "train/agg/all/judge/solved_none" in run.scalars


def test_a_metric_under_two_names():
    assert aliases(["critic/rewards/mean", "critic/score/mean"]) == {"reward": "critic/score/mean"}
    assert aliases(["train/lr", "train/learning_rate"])["learning_rate"] == "train/learning_rate"
    assert aliases(["loss", "actor/pg_loss"]) == {}
    assert not list(derived(["frac_reward_zero_std", "env/all/by_group/frac_mixed"]))
    assert not list(derived(["train/frac_reward_zero_std", "env/all/by_group/frac_mixed"]))


def test_no_trainer_calls_one_thing_by_the_name_of_another():
    meanings: dict[str, str] = {}
    for table in BY_TRAINER.values():
        for name, other in table.items():
            assert meanings.setdefault(name, other) == other
            assert trl_name(name) == trl_name(f"train/{name}") == other
    for one in DERIVED:
        names = [term.replace("*", "agent") for term in one.terms]
        assert one.sources(names) is not None
        assert one.sources(names[1:]) is None or len(names) == 1
