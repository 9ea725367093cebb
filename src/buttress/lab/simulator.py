"""Policies without a network: a softmax over actions per prompt, for theory and for quick trials.

A policy holds one logit per action, ``(..., prompt, action)``: whatever stands in front (seeds,
methods) is simulated side by side. With `features` prompts share parameters, as they do in a model:
``logits = features @ weights``. An update is either sampled, as training does it, or the exact
expectation over all groups. The expectation leaves out the noise, which is what decides between
methods that act on tied groups; it is there for theorems, not for comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from scipy.stats import binom

from buttress.groups import Groups
from buttress.remedies import estimator

Array = NDArray[np.float64]


@dataclass
class SoftmaxPolicy:
    """Logits of actions, some of them right.

    Attributes
    ----------
    weights
        ``(..., prompt, action)``; with features ``(..., feature, action)``.
    right
        ``(prompt, action)``, True where an action is right.
    features
        ``(prompt, feature)``, or None for prompts that share nothing.
    """

    weights: Array
    right: NDArray[np.bool_]
    features: Array | None = None

    @property
    def chances(self) -> Array:
        """Probabilities of the actions, ``(..., prompt, action)``."""
        logits = self.weights if self.features is None else self.features @ self.weights
        return softmax(logits, axis=-1)

    def success(self) -> Array:
        """Return the chance of a right action, ``(..., prompt)``."""
        return (self.chances * self.right).sum(-1)

    def ascend(self, direction: Array, rate: float) -> None:
        """Move along a direction of the logits, ``(..., prompt, action)``."""
        if self.features is not None:
            direction = np.swapaxes(self.features, -1, -2) @ direction
        self.weights = self.weights + rate * direction


def sample_actions(chances: Array, group: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Draw `group` actions of each distribution, ``(..., sample)``."""
    edges = chances.cumsum(-1)
    draws = generator.random((*chances.shape[:-1], group)) * edges[..., -1:]
    flat = edges.reshape(-1, edges.shape[-1])
    rows = zip(flat, draws.reshape(-1, group), strict=True)
    found = [np.searchsorted(row, draw) for row, draw in rows]
    return np.stack(found).reshape(draws.shape).clip(max=chances.shape[-1] - 1)


def sampled_direction(chances: Array, actions: NDArray[np.int64], advantages: Array) -> Array:
    """Return ``(1/G) Σ A_i ∇ log π(a_i)`` in the logits; on-policy, so no ratio and no clip.

    Shapes ``(..., action)``, ``(..., sample)`` twice.
    """
    group = actions.shape[-1]
    direction = -chances * (advantages.sum(-1, keepdims=True) / group)
    flat = direction.reshape(-1, direction.shape[-1])
    rows = np.repeat(np.arange(len(flat)), group)
    np.add.at(flat, (rows, actions.reshape(-1)), advantages.reshape(-1) / group)
    return flat.reshape(direction.shape)


def expected_direction(
    chances: Array, right: NDArray[np.bool_], group: int, method: str, **options: Any
) -> Array:
    """Return the expectation of `sampled_direction` over all groups, exactly.

    For 0/1 rewards an advantage depends on the number k of right answers in the group only, and k
    is binomial: given k, a right sample is distributed as the policy restricted to right actions.

    Parameters
    ----------
    chances, right
        ``(..., prompt, action)`` and ``(prompt, action)``.
    method, options
        An advantage estimator without memory that treats each group by itself.
    """
    p = (chances * right).sum(-1)[..., None]
    wins = np.arange(group + 1)
    nested = (np.arange(group) < wins[:, None]).astype(float)
    table = np.asarray(estimator(method, **options)(Groups.from_dense(nested)))
    table = table.reshape(group + 1, group)
    weight = binom.pmf(wins, group, p)  # (..., prompt, k)
    of_right = (weight * wins * table[:, 0]).sum(-1)[..., None] / group
    of_wrong = (weight * (group - wins) * table[:, -1]).sum(-1)[..., None] / group
    among_right = np.divide(chances * right, p, out=np.zeros_like(chances), where=p > 0)
    among_wrong = np.divide(chances * ~right, 1 - p, out=np.zeros_like(chances), where=p < 1)
    drawn = of_right * among_right + of_wrong * among_wrong
    return drawn - (of_right + of_wrong) * chances


def simulate(
    policy: SoftmaxPolicy,
    method: str,
    *,
    steps: int,
    prompts: int,
    group: int,
    rate: float,
    seeds: ArrayLike,
    **options: Any,
) -> dict[str, Array]:
    """Train copies of a policy, one per seed, and return the course: ``(seed, step)`` each.

    Every step draws `prompts` prompts and `group` actions of each. The seeds are sampled and
    updated side by side; each has its own estimator, since some remember.

    Returns
    -------
    dict
        ``acr`` of the groups drawn and ``success`` over all prompts before the step.
    """
    generators = [np.random.default_rng(int(seed)) for seed in np.atleast_1d(seeds)]
    estimators = [estimator(method, **options) for _ in generators]
    run = SoftmaxPolicy(np.stack([policy.weights] * len(generators)), policy.right, policy.features)
    course: dict[str, list[Array]] = {"acr": [], "success": []}
    places = np.arange(len(generators))[:, None]
    for step in range(steps):
        chances = run.chances
        course["success"].append((chances * run.right).sum(-1).mean(-1))
        chosen = np.stack(
            [one.choice(len(policy.right), prompts, replace=False) for one in generators]
        )
        drawn = chances[places, chosen]
        actions = np.stack(
            [sample_actions(each, group, one) for each, one in zip(drawn, generators, strict=True)]
        )
        reward = np.take_along_axis(policy.right[chosen], actions, axis=-1).astype(float)
        course["acr"].append((reward.min(-1) == reward.max(-1)).mean(-1))
        advantages = np.stack(
            [
                np.asarray(own(Groups.from_dense(each, prompt_id=ids, step=step)))
                for own, each, ids in zip(estimators, reward, chosen, strict=True)
            ]
        ).reshape(reward.shape)
        direction = np.zeros_like(chances)
        direction[places, chosen] = sampled_direction(drawn, actions, advantages)
        run.ascend(direction / prompts, rate)
    return {name: np.stack(values, axis=-1) for name, values in course.items()}
