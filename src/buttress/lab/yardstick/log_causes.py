"""Causes in the log: what is left out of it, and which rollouts it calls a group."""

from __future__ import annotations

import numpy as np

from buttress.lab.yardstick.draft import Draft

Rng = np.random.Generator


def drop_tied(draft: Draft, rng: Rng) -> None:
    """Leave out every group without a spread, as dynamic sampling does, and refill nothing."""
    draft.kept &= (np.ptp(draft.reward, axis=1) > 0)[:, None]


def drop_and_refill(draft: Draft, rng: Rng) -> None:
    """Leave out every group without a spread and fill the steps up with the next ones."""
    per_step = int(np.bincount(draft.steps).max())
    mixed = np.flatnonzero(np.ptp(draft.reward, axis=1) > 0)
    first = int(draft.steps.min())
    draft.select(mixed[: len(mixed) // per_step * per_step])
    draft.steps = np.arange(len(draft.steps)) // per_step + first
    n = len(draft.logged_steps)
    draft.scalars = {name: values[:n] for name, values in draft.scalars.items()}


def shuffle_ids(draft: Draft, rng: Rng) -> None:
    """Deal the ids of a step to its rows at random; by position, the rows themselves."""
    for step in draft.logged_steps:
        here = np.flatnonzero(draft.steps == step)
        dealt = rng.permutation(draft.ids[here].ravel())
        draft.ids[here] = dealt.reshape(draft.ids[here].shape)


def split_ids(draft: Draft, rng: Rng) -> None:
    """Give each rank an id of its own for its share of a group."""
    ranks = int(rng.choice([2, 4]))
    own = np.arange(draft.ids.shape[1]) * ranks // draft.ids.shape[1]
    draft.ids = draft.ids * ranks + own


def merge_ids(draft: Draft, rng: Rng) -> None:
    """Cut ids short, so that two groups of a step share one."""
    for step in draft.logged_steps:
        here = rng.permutation(np.flatnonzero(draft.steps == step))
        n = len(here) // 2 * 2
        draft.ids[here[1:n:2]] = draft.ids[here[:n:2]]


def single_ids(draft: Draft, rng: Rng) -> None:
    """Give every rollout an id of its own."""
    draft.ids = np.arange(draft.ids.size).reshape(draft.ids.shape)


def thin(draft: Draft, rng: Rng) -> None:
    """Log the rollouts of every n-th step."""
    draft.kept &= (draft.steps % int(rng.integers(2, 4)) == 0)[:, None]


def lose_few(draft: Draft, rng: Rng) -> None:
    """Lose a rollout here and there."""
    draft.kept &= rng.random(draft.kept.shape) >= rng.uniform(0.005, 0.02)


def any_order(draft: Draft, rng: Rng) -> None:
    """Write the rows of a step in any order, each with its right id."""
    draft.shuffled = True


def show_less(draft: Draft, rng: Rng) -> None:
    """Log no verdicts, advantages or metrics beside the reward, or only some of them."""
    draft.shows -= {name for name in ("correct", "advantage", "scalars") if rng.random() < 0.6}
