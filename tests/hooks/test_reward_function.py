"""`monitored`: a reward function as it was, and a monitor that sees its groups."""

from __future__ import annotations

import asyncio
import inspect
from types import SimpleNamespace

import pytest

import buttress as bt
from buttress.errors import UsageError
from buttress.hooks.ranks import over_ranks
from buttress.hooks.reward_function import monitored
from tests.hooks.monitored_runs import collapsed, mixed, same


def accuracy(prompts, completions, **columns):
    """Score by length."""
    return [None if text is None else float(len(text) > 1) for text in completions]


PROMPTS = ["a", "a", "b", "b"]
TEXTS = ["xx", "xx", "x", "xx"]


def test_the_function_stays_what_it_was():
    wrapped = monitored(accuracy, bt.Monitor())
    assert wrapped.__name__ == "accuracy"
    assert wrapped.__doc__ == "Score by length."
    assert wrapped(PROMPTS, TEXTS) == accuracy(PROMPTS, TEXTS)
    assert wrapped(prompts=PROMPTS, completions=TEXTS, level=[1] * 4) == accuracy(PROMPTS, TEXTS)


def test_groups_are_runs_of_one_prompt_or_of_one_size():
    by_prompt, by_size = bt.Monitor(), bt.Monitor()
    monitored(accuracy, by_prompt)(PROMPTS, TEXTS)
    monitored(accuracy, by_size, group_size=4)(PROMPTS, TEXTS)
    assert by_prompt.metrics()["buttress/acr"] == 0.5
    assert by_prompt.metrics()["buttress/prompts"] == 2
    assert by_size.metrics()["buttress/acr"] == 0.0


def test_chat_prompts_lengths_and_missing_rewards():
    monitor = bt.Monitor()
    chats = [[{"role": "user", "content": prompt}] for prompt in PROMPTS]
    ids = [[1, 2]] * 4
    monitored(accuracy, monitor)(
        prompts=chats, completions=["xx", "xx", None, None], completion_ids=ids
    )
    found = monitor.metrics()
    assert found["buttress/acr"] == 1.0
    assert found["buttress/unscorable_share"] == 0.5
    assert found["buttress/wasted_tokens"] == 4


def test_steps_come_from_the_trainer_the_user_or_the_calls():
    trainers, own, counted = bt.Monitor(), bt.Monitor(), bt.Monitor()
    state = SimpleNamespace(global_step=6)
    monitored(accuracy, trainers)(PROMPTS, TEXTS, trainer_state=state)
    monitored(accuracy, own, step=lambda: 40)(PROMPTS, TEXTS, trainer_state=state)
    wrapped = monitored(accuracy, counted)
    for _ in range(3):
        wrapped(PROMPTS, TEXTS)
    assert (trainers.last_step, own.last_step, counted.last_step) == (7, 40, 3)


def test_calls_in_evaluation_can_be_left_out():
    monitor, training = bt.Monitor(), False
    wrapped = monitored(accuracy, monitor, active=lambda: training)
    wrapped(PROMPTS, TEXTS)
    assert monitor.last_step is None
    training = True
    wrapped(PROMPTS, TEXTS)
    assert monitor.last_step == 1


def test_a_coroutine_stays_one():
    async def slow(prompts, completions):
        return accuracy(prompts, completions)

    monitor = bt.Monitor()
    wrapped = monitored(slow, monitor)
    assert inspect.iscoroutinefunction(wrapped)
    assert asyncio.run(wrapped(PROMPTS, TEXTS)) == accuracy(PROMPTS, TEXTS)
    assert monitor.metrics()["buttress/acr"] == 0.5


@pytest.mark.parametrize(
    ("rewards", "arguments", "settings"),
    [
        ([1.0], (PROMPTS, TEXTS), {}),
        (["text"] * 4, (PROMPTS, TEXTS), {}),
        ([1.0] * 4, (), {}),
        ([1.0] * 4, (PROMPTS, TEXTS), {"group_size": 3}),
        ([1.0] * 4, (PROMPTS, TEXTS), {"step": lambda: 1 / 0}),
        ([1.0] * 4, (PROMPTS, TEXTS), {"active": lambda: 1 / 0}),
    ],
)
def test_what_cannot_be_grouped_is_one_warning_and_the_rewards_go_on(
    rewards, arguments, settings, caplog
):
    wrapped = monitored(lambda *args: rewards, bt.Monitor(), **settings)
    assert wrapped(*arguments) is wrapped(*arguments) is rewards
    assert len(caplog.records) == 1


def test_a_fault_of_the_reward_function_stays_its_own():
    with pytest.raises(ZeroDivisionError):
        monitored(lambda: 1 / 0, bt.Monitor())()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("accuracy", bt.Monitor()), "needs a reward function"),
        ((dict, bt.Monitor()), "needs a reward function"),
        ((accuracy, print), "monitor must have update"),
    ],
)
def test_wrong_arguments_fail_at_once(arguments, message):
    with pytest.raises(UsageError, match=message):
        monitored(*arguments)
    with pytest.raises(UsageError, match="group_size must be"):
        monitored(accuracy, bt.Monitor(), group_size=1)


def test_one_process_is_all_ranks():
    monitor = bt.Monitor(window=40)
    for step in range(1, 30):
        monitor.update(mixed() if step % 3 else collapsed(), step=step)
    same(over_ranks(monitor).metrics(), monitor.metrics())
