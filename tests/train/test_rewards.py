"""Reward functions: checked answers, functions of the user's own, and every way to go wrong."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from buttress.errors import InputError, UsageError
from buttress.train.config import Reward
from buttress.train.judging.scorers import scorer_of
from buttress.train.rewards import RewardError, RewardFunction, imported
from tests.helpers import require

STATE = SimpleNamespace(global_step=4)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module into the working directory and return the reward of its function `f`."""
    monkeypatch.chdir(tmp_path)

    def written(body):
        (tmp_path / "mine.py").write_text(f"def f(completions, **given):\n    {body}\n")
        return RewardFunction(Reward(use="mine.py:f", options={"bonus": 2}), tmp_path)

    return written


def ask(reward, completions=("a", "b"), **columns):
    columns = {"prompts": ["?"] * len(completions), "answer": ["a"] * len(completions)} | columns
    return reward(completions=list(completions), trainer_state=STATE, **columns)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("return [1, 0.5]", [1.0, 0.5]),
        ("return (None, float('nan'))", [None, None]),
        ("return [True, False]", [1.0, 0.0]),
        ("import numpy; return numpy.array([1, 2])", [1.0, 2.0]),
        ("return [given['bonus']] * len(completions)", [2.0, 2.0]),
        (
            "return [float(one == right) for one, right in zip(completions, given['answer'])]",
            [1, 0],
        ),
    ],
)
def test_what_counts_as_rewards(module, body, wanted):
    assert ask(module(body)) == wanted


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise KeyError('gold')", r"raised KeyError: 'gold' at .*mine\.py:2 \(step 5\)"),
        ("return [1.0]", "returned 1 rewards for 2 completions"),
        ("return 1.0", "returned 1.0 and no list"),
        ("return 'ab'", "returned 'ab' and no list"),
        ("return None", "returned None and no list"),
        ("return [1, float('inf')]", "returned inf for completion 1, and no finite number"),
        ("return ['1', 0]", "returned '1' for completion 0"),
        ("return [[1], 0]", r"returned \[1\] for completion 0"),
    ],
)
def test_a_fault_ends_the_training_and_keeps_the_completions(module, tmp_path, body, said):
    with pytest.raises(RewardError, match=said) as fault:
        ask(module(body))
    assert "--resume" in str(fault.value)
    (kept,) = tmp_path.glob("failed-reward-step5-*.txt")
    assert str(kept) in str(fault.value)
    assert len(kept.read_text().splitlines()) == 2


def test_a_function_may_be_asynchronous(tmp_path):
    (tmp_path / "later.py").write_text("async def f(completions, **_):\n    return [0.25]\n")
    reward = RewardFunction(Reward(use=f"{tmp_path / 'later.py'}:f"), tmp_path)
    assert ask(reward, ["x"]) == [0.25]
    assert reward.__name__ == "f"
    assert not reward.verifies


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_module_of_mine:f", "cannot import no_such_module_of_mine: ModuleNotFoundError"),
        ("nowhere/mine.py:f", "there is no file nowhere/mine.py"),
        ("math:cosinus", "has no function cosinus|unknown function 'cosinus'"),
    ],
)
def test_a_function_that_is_not_there(name, said):
    with pytest.raises(InputError, match=said):
        imported(name)


def test_the_nearest_function_is_named(tmp_path):
    (tmp_path / "mine.py").write_text("def score(**_): ...\n")
    with pytest.raises(InputError, match="Did you mean 'score'"):
        imported(f"{tmp_path / 'mine.py'}:scoer")


def test_exact_match():
    score = scorer_of("exact", {})
    rows = [{"answer": one} for one in (4, " 4", "#### 4", None, "x")]
    assert score(["4", "4 ", "4", "4", "4"], rows) == [1, 1, 1, None, 0]
    score = scorer_of("exact", {"pattern": r"answer is (\w+)", "ignore_case": True})
    texts = ["The answer is A. No, the answer is b", "none"]
    assert score(texts, [{"answer": "B"}] * 2) == [1, 0]
    with pytest.raises(UsageError, match="no regular expression"):
        scorer_of("exact", {"pattern": "("})
    with pytest.raises(UsageError, match="unexpected keyword"):
        scorer_of("exact", {"patern": "x"})


def test_messages_are_judged_by_their_text():
    reward = RewardFunction(Reward(use="exact"), ".")
    messages = [[{"role": "assistant", "content": one}] for one in ("a", "b")]
    assert ask(reward, messages) == [1.0, 0.0]


def test_math_is_judged_by_value_in_another_process(tmp_path):
    require("math_verify")
    reward = RewardFunction(Reward(use="math", options={"workers": 1}), tmp_path)
    try:
        answers = ["1/2", "1/2", "1/2", "\\"]
        texts = ["so \\boxed{\\frac{1}{2}}", "it is $0.5$", "\\boxed{2}", "\\boxed{1}"]
        assert ask(reward, texts, answer=answers) == [1.0, 1.0, 0.0, None]
        assert sum(reward.faults.values()) == 1
        assert reward.check([{"answer": "7"}, {"answer": "$x^2$"}]) == []
        (note,) = reward.check([{"answer": "7"}, {"answer": "\\"}])
        assert "1 of 2 answers" in note
        assert "row 1" in note
        with pytest.raises(UsageError, match="cannot be read by math-verify"):
            reward.check([{"answer": "\\"}, {"answer": ""}])
    finally:
        reward.close()


def test_gym_scores_by_the_data_sets_own_rule(tmp_path):
    gym = require("reasoning_gym")
    data = gym.create_dataset("leg_counting", size=3, seed=0)
    reward = RewardFunction(Reward(use="gym", options={"workers": 1}), tmp_path)
    try:
        columns = {name: [entry[name] for entry in data] for name in data[0]}
        right = ask(reward, [entry["answer"] for entry in data], **columns)
        assert right == [1.0, 1.0, 1.0]
        assert max(ask(reward, ["?"] * 3, **columns)) < 0.5
    finally:
        reward.close()


def test_names_of_rewards(tmp_path):
    named = RewardFunction(Reward(use="exact", name="right"), tmp_path)
    assert named.__name__ == "right"
    assert named.verifies
    assert math.isclose(ask(named)[0], 1.0)
