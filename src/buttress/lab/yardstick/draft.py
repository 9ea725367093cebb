"""A run in the making: a recording goes through the phases of a step, and causes act there.

sample, grade, reward, advantage, optimise, log: each phase computes from the one before what a
trainer would, so that a cause that acts in one phase shows in all later ones by itself.

The optimiser's numbers are the one thing that cannot be computed anew: loss and grad_norm are those
of the recording, scaled by how much larger or smaller the advantages of the step became. They are 0
where the step has no advantage; where the run has a KL term, what a step without advantages showed
stays (our reading: on policy both are linear in the advantages).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups
from buttress.lab.yardstick.recording import Recording, recording, verdicts
from buttress.remedies import estimator

Phase = Literal["sample", "grade", "reward", "advantage", "optimise", "log"]
PHASES: tuple[Phase, ...] = ("sample", "grade", "reward", "advantage", "optimise", "log")
Floats = NDArray[np.float64]
_ARRAYS = (
    "steps", "prompts", "answers", "texts", "lengths", "ended", "correct", "advantages", "ids",
    "kept",
)  # fmt: skip


@dataclass
class Draft:
    """A run in the making; arrays are ``(group, sample)`` unless they say otherwise.

    Attributes
    ----------
    base
        The recording that it started from.
    steps, prompts, answers
        ``(group,)``.
    correct
        The verdicts; NaN where a rollout could not be graded.
    parts
        Components of the reward, weighted; the reward is their sum.
    method, eps
        The estimator of the advantages.
    advantages
        What the trainer uses.
    ids
        The group that the log names for each rollout.
    kept
        Rollouts that reach the log.
    scalars
        Metrics of each step that reach the log, ``(step,)`` in the order of `logged_steps`.
    shows
        What the log has besides texts and rewards: ``correct``, ``parts``, ``advantage``,
        ``scalars``.
    shuffled
        Whether the rows of a step stand in any order.
    """

    base: Recording
    steps: NDArray[np.int64]
    prompts: NDArray[np.object_]
    answers: NDArray[np.object_]
    texts: NDArray[np.object_]
    lengths: NDArray[np.int64]
    ended: NDArray[np.bool_]
    method: str
    eps: float = 1e-4
    shows: set[str] = field(default_factory=lambda: {"correct", "parts", "advantage", "scalars"})
    shuffled: bool = False
    correct: Floats = field(init=False)
    parts: dict[str, Floats] = field(default_factory=dict)
    advantages: Floats = field(init=False)
    scalars: dict[str, Floats] = field(default_factory=dict)
    ids: NDArray[np.int64] = field(init=False)
    kept: NDArray[np.bool_] = field(init=False)

    @classmethod
    def of(cls, name: str) -> Draft:
        """Return a copy of a shipped recording."""
        base = recording(name)
        return cls(
            base,
            base.steps.copy(),
            base.prompts.copy(),
            base.answers.copy(),
            base.texts.copy(),
            base.lengths.copy(),
            base.ended.copy(),
            base.method,
        )

    @property
    def reward(self) -> Floats:
        """The scalar that the trainer normalises."""
        return np.sum(list(self.parts.values()), axis=0)

    @property
    def logged_steps(self) -> NDArray[np.int64]:
        """The steps of the run, ``(step,)``."""
        return np.unique(self.steps)

    def select(self, groups: NDArray[np.bool_] | NDArray[np.int64]) -> None:
        """Keep some groups, with what has been computed of them so far."""
        for name in _ARRAYS:
            if hasattr(self, name):
                setattr(self, name, getattr(self, name)[groups])
        self.parts = {name: values[groups] for name, values in self.parts.items()}

    def vary(self, rng: np.random.Generator) -> None:
        """Keep a stretch of the run, some groups of each step and some rollouts of each group.

        At least three quarters of the steps, five groups and six rollouts: no two runs are alike.
        """
        steps = self.logged_steps
        spare = int(rng.integers(len(steps) // 4 + 1))
        first = int(rng.integers(spare + 1))
        wanted = steps[first : len(steps) - (spare - first)]
        most = int(np.bincount(self.steps).max())
        n, size = int(rng.integers(5, most + 1)), int(rng.integers(6, self.texts.shape[1] + 1))
        chosen = [rng.permutation(np.flatnonzero(self.steps == step))[:n] for step in wanted]
        self.select(np.sort(np.concatenate(chosen)))
        for name in ("texts", "lengths", "ended"):
            setattr(self, name, getattr(self, name)[:, :size])

    def enter(self, phase: Phase) -> None:
        """Compute what the trainer computes in a phase."""
        if phase == "grade":
            self.correct = verdicts(self.base.judge, self.texts, self.answers, self.ended)
        elif phase == "reward":
            self.parts = {"accuracy": self.correct.copy()}
        elif phase == "advantage":
            self.advantages = estimate(self.steps, self.reward, self.method, self.eps)
        elif phase == "optimise":
            self.scalars = self._scaled()
        elif phase == "log":
            self.ids = (
                np.arange(self.reward.size).reshape(self.reward.shape) // self.reward.shape[1]
            )
            self.kept = np.ones(self.reward.shape, dtype=bool)

    def _scaled(self) -> dict[str, Floats]:
        base = self.base
        before = verdicts(base.judge, base.texts, base.answers, base.ended)
        was = _size(base.steps, estimate(base.steps, before, base.method, 1e-4))
        at = np.searchsorted(np.unique(base.steps), self.logged_steps)
        now = _size(self.steps, self.advantages)
        found = {name: values[at] for name, values in base.scalars.items()}
        typical = float(np.median(was[was > 0])) if (was > 0).any() else 1.0
        factor = now / np.where(was[at] > 0, was[at], typical)
        kl_term = 0.0 if "kl" not in found else found["kl"] > 0
        floor = np.where(kl_term, found["grad_norm"], 0.0)
        found["loss"] = np.where(now > 0, found["loss"] * np.minimum(factor, 100.0), 0.0)
        norm = np.where(now > 0, found["grad_norm"] * np.minimum(factor, 100.0), 0.0)
        moved = base.scalars["grad_norm"][was > 0]
        unseen = (now > 0) & (was[at] == 0)
        norm[unseen] = float(np.median(moved)) * factor[unseen]
        found["grad_norm"] = np.where(now > 0, norm, floor)
        return found


def estimate(steps: NDArray[np.int64], reward: Floats, method: str, eps: float) -> Floats:
    """Return the advantages that an estimator gives, step after step; 0 where a reward is null."""
    options = {} if method in ("dr_grpo", "rloo") else {"eps": eps}
    one = estimator(method, **options)
    found = np.zeros(reward.shape)
    for step in np.unique(steps):
        here = steps == step
        given = np.asarray(one(Groups.from_dense(reward[here], step=int(step))))
        found[here] = np.nan_to_num(given.reshape(reward[here].shape))
    return found


def _size(steps: NDArray[np.int64], advantages: Floats) -> Floats:
    """Return the root mean square advantage of each step."""
    square = (advantages**2).mean(axis=1)
    place = np.unique(steps, return_inverse=True)[1]
    return np.sqrt(np.bincount(place, weights=square) / np.bincount(place))
