"""Synthetic runs: healthy ones of every kind, and what the tests build faults from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from buttress.groups import Groups, LogFacts, Run, Scalar
from buttress.rules import Case, Finding, examine


def findings(run: Run | Groups, **options) -> list[Finding]:
    """Examine a run, or groups alone."""
    return examine(Case(run if isinstance(run, Run) else Run(run)), **options)


def names(run: Run | Groups) -> list[str]:
    return [one.rule for one in findings(run)]


def of(run: Run | Groups, rule: str) -> list[Finding]:
    """Return the findings of one rule."""
    return [one for one in findings(run) if one.rule == rule]


def the(run: Run | Groups, rule: str) -> Finding:
    """Return the one finding of a rule."""
    (found,) = of(run, rule)
    return found


def scalar(values, step=None) -> Scalar:
    values = np.asarray(values, dtype=np.float64)
    return Scalar(np.arange(1, len(values) + 1) if step is None else np.asarray(step), values)


def scalars(**columns) -> dict[str, Scalar]:
    return {name: scalar(values) for name, values in columns.items()}


def binary(rng: np.random.Generator, rate: np.ndarray, size: int = 8) -> np.ndarray:
    """Return 0/1 outcomes of shape ``(group, size)`` for one success rate per group."""
    return (rng.random((len(rate), size)) < rate[:, None]).astype(np.float64)


def steps_of(n_groups: int, n_steps: int) -> np.ndarray:
    return np.repeat(np.arange(1, n_steps + 1), n_groups // n_steps)


def grpo(rewards: np.ndarray, eps: float = 1e-4, ddof: int = 1) -> np.ndarray:
    centred = rewards - rewards.mean(axis=1, keepdims=True)
    return centred / (rewards.std(axis=1, ddof=ddof, keepdims=True) + eps)


def early(rng: np.random.Generator, n: int = 960, n_steps: int = 30):
    """Return outcomes and steps of a run early in training: few ties."""
    return binary(rng, rng.beta(1.5, 1.5, n)), steps_of(n, n_steps)


def _early() -> Run:
    outcome, step = early(np.random.default_rng(0))
    prompts = np.arange(len(outcome)) % 200
    return Run(Groups.from_dense(outcome, step=step, prompt_id=prompts, correct=outcome))


def _mastered() -> Run:
    rng = np.random.default_rng(1)
    step = steps_of(1600, 100)
    rate = np.clip(0.35 + 0.7 * step / 100 + rng.normal(0, 0.1, 1600), 0.05, 0.995)
    outcome = binary(rng, rate)
    return Run(Groups.from_dense(outcome, step=step, correct=outcome))


def _partial_credit() -> Run:
    rng = np.random.default_rng(2)
    passed = rng.binomial(10, rng.beta(2, 2, 800)[:, None], (800, 8)) / 10
    return Run(
        Groups.from_dense(
            passed,
            step=steps_of(800, 40),
            correct=(passed == 1).astype(float),
            advantage=grpo(passed),
        )
    )


def _negative() -> Run:
    outcome, step = early(np.random.default_rng(3))
    rewards = 2 * outcome - 1
    return Run(Groups.from_dense(rewards, step=step, advantage=grpo(rewards)))


def _ragged() -> Run:
    rng = np.random.default_rng(4)
    sizes = rng.integers(3, 9, 600)
    rewards = [(rng.random(n) < rng.beta(2, 2)).astype(float) for n in sizes]
    advantages = [(r - r.mean()) / (r.std() + 1e-6) for r in rewards]
    return Run(Groups.from_nested(rewards, step=steps_of(600, 30), advantage=advantages))


def _centred(scale: float = 1.0) -> Run:
    outcome, step = early(np.random.default_rng(5))
    rewards = scale * outcome
    return Run(
        Groups.from_dense(
            rewards, step=step, advantage=rewards - rewards.mean(axis=1, keepdims=True)
        )
    )


def _rloo() -> Run:
    rng = np.random.default_rng(6)
    rewards = 2 * binary(rng, rng.beta(1.5, 1.5, 960), size=4) - 1
    centred = rewards - rewards.mean(axis=1, keepdims=True)
    return Run(Groups.from_dense(rewards, step=steps_of(960, 30), advantage=centred * 4 / 3))


def _batch_scaled() -> Run:
    rng = np.random.default_rng(7)
    # rare successes make the deviation of a step small and its advantages large
    outcome, step = (
        binary(rng, rng.choice([0.02, 0.4, 0.6], 960, p=[0.2, 0.4, 0.4])),
        steps_of(960, 30),
    )
    by_step = outcome.reshape(30, -1).std(axis=1, ddof=1)
    centred = outcome - outcome.mean(axis=1, keepdims=True)
    return Run(
        Groups.from_dense(outcome, step=step, advantage=centred / by_step[step - 1][:, None])
    )


def _format_bonus() -> Run:
    outcome, step = early(np.random.default_rng(8))
    rewards = outcome + 0.1
    return Run(
        Groups.from_dense(
            rewards,
            step=step,
            advantage=grpo(rewards),
            **{"reward/accuracy": outcome, "reward/format": np.full_like(outcome, 0.1)},
        )
    )


def _off_policy() -> Run:
    outcome, step = early(np.random.default_rng(9))
    rng = np.random.default_rng(10)
    return Run(
        Groups.from_dense(outcome, step=step, advantage=grpo(outcome)),
        scalars(
            loss=rng.normal(0, 0.02, 30),
            grad_norm=rng.uniform(0.05, 0.4, 30),
            kl=rng.uniform(0, 0.02, 30),
            learning_rate=np.linspace(1e-6, 0, 30),
            **{"completions/clipped_ratio": rng.uniform(0, 0.2, 30)},
        ),
    )


def _reward_model() -> Run:
    rng = np.random.default_rng(11)
    rewards = rng.normal(0, 3, (800, 1)) + rng.normal(0, 1, (800, 8))
    # an asynchronous trainer: the number of groups per step varies, and nothing ever ties
    step = np.sort(rng.integers(1, 40, 800))
    return Run(Groups.from_dense(rewards, step=step, advantage=grpo(rewards)))


def _length_penalty() -> Run:
    rng = np.random.default_rng(12)
    outcome, step = binary(rng, rng.uniform(0.1, 0.9, 960)), steps_of(960, 30)
    length = rng.integers(100, 1000, outcome.shape)
    penalty = -0.2 * length / 1000
    return Run(
        Groups.from_dense(
            outcome + penalty,
            step=step,
            correct=outcome,
            length=length,
            truncated=length > 980,
            **{"reward/length_penalty": penalty},
        )
    )


def _scalars_only() -> Run:
    rng = np.random.default_rng(13)
    return Run(
        Groups.from_nested([]),
        scalars(
            loss=np.zeros(20),
            grad_norm=rng.uniform(0.08, 0.11, 20),
            reward_std=rng.uniform(0.5, 0.8, 20),
            frac_reward_zero_std=rng.uniform(0, 0.1, 20),
        ),
    )


def _one_group_a_step() -> Run:
    rng = np.random.default_rng(14)
    outcome = binary(rng, rng.beta(1.5, 1.5, 300))
    return Run(Groups.from_dense(outcome, step=np.arange(1, 301), correct=outcome))


def _short_answers() -> Run:
    """One-token answers: identical texts are normal, on solved prompts above all."""
    rng = np.random.default_rng(15)
    outcome = binary(rng, rng.choice([0.5, 0.999, 0.3], 900, p=[0.45, 0.25, 0.3]))
    wrong = rng.integers(0, 3, outcome.shape)
    text = np.where(outcome == 1, 7, wrong)
    return Run(
        Groups.from_dense(
            outcome, step=steps_of(900, 30), correct=outcome, completion=text, length=text * 0 + 1
        )
    )


def _avspo() -> Run:
    outcome, step = early(np.random.default_rng(16))
    advantage = grpo(outcome, ddof=0)
    mean = outcome.mean(axis=1)
    advantage[mean == 0] = -0.81
    advantage[mean == 1] = 0.81
    return Run(Groups.from_dense(outcome, step=step, advantage=advantage))


def _whitened() -> Run:
    """REINFORCE++ with a group baseline: centred, then whitened over the tokens of the step."""
    rng = np.random.default_rng(17)
    outcome, step = early(rng)
    centred = outcome - outcome.mean(axis=1, keepdims=True)
    weight = rng.integers(50, 400, outcome.shape).astype(float)
    for one in np.unique(step):
        rows = step == one
        mean = np.average(centred[rows], weights=weight[rows])
        spread = np.sqrt(np.average((centred[rows] - mean) ** 2, weights=weight[rows]))
        centred[rows] = (centred[rows] - mean) / spread
    return Run(Groups.from_dense(outcome, step=step, advantage=centred))


def _float32() -> Run:
    """TRL's own formula in float32 on rewards of 0.7: noise below a hundredth in tied groups."""
    outcome, step = early(np.random.default_rng(18))
    rewards = (0.7 * outcome).astype(np.float32)
    advantage = grpo(rewards, eps=np.float32(1e-4))
    advantage[rewards.min(axis=1) > 0] = 6e-4
    return Run(Groups.from_dense(rewards, step=step, advantage=advantage))


def _few_nulls() -> Run:
    rng = np.random.default_rng(19)
    outcome, step = early(rng)
    return Run(
        Groups.from_dense(np.where(rng.random(outcome.shape) < 0.01, np.nan, outcome), step=step)
    )


def _hard_start() -> Run:
    rng = np.random.default_rng(20)
    step = steps_of(3200, 200)
    rate = np.clip(rng.beta(1.5, 1.5, 3200) * np.minimum(step / 40, 1), 0.001, 0.999)
    outcome = binary(rng, rate)
    return Run(Groups.from_dense(outcome, step=step, correct=outcome))


def _thinned() -> Run:
    outcome, step = early(np.random.default_rng(21))
    return Run(
        Groups.from_dense(outcome, step=2 * step), facts=LogFacts(logged_every=2, repeated=64)
    )


def _large_groups() -> Run:
    rng = np.random.default_rng(22)
    outcome = binary(rng, rng.uniform(0.2, 0.8, 200), size=64)
    # not one tie in groups of 64, and two short steps: no filter
    step = np.repeat(np.arange(1, 27), 8)[:200]
    step[-3:] = 27
    return Run(Groups.from_dense(outcome, step=step))


HEALTHY: dict[str, Callable[[], Run]] = {
    "early": _early,
    "mastered": _mastered,
    "partial credit": _partial_credit,
    "negative rewards": _negative,
    "ragged": _ragged,
    "dr_grpo": _centred,
    "dr_grpo, large rewards": lambda: _centred(1000.0),
    "dr_grpo, small rewards": lambda: _centred(1e-3),
    "rloo": _rloo,
    "batch scaled": _batch_scaled,
    "constant format bonus": _format_bonus,
    "off policy": _off_policy,
    "reward model": _reward_model,
    "length penalty": _length_penalty,
    "scalars only": _scalars_only,
    "one group a step": _one_group_a_step,
    "one-token answers": _short_answers,
    "avspo": _avspo,
    "whitened": _whitened,
    "float32 noise": _float32,
    "few nulls": _few_nulls,
    "hard start": _hard_start,
    "thinned log": _thinned,
    "large groups": _large_groups,
}
