"""Causes in the grading of completions: parsers, time-outs, noise, wrong answer keys."""

from __future__ import annotations

import numpy as np

from buttress.lab.yardstick.draft import Draft

Rng = np.random.Generator


def reject_all(draft: Draft, rng: Rng) -> None:
    """Find no answer in any completion: a parser for another format."""
    draft.correct[:] = 0.0


def reject_later(draft: Draft, rng: Rng) -> None:
    """Find no answer from some step on."""
    steps = draft.logged_steps
    broken = draft.steps > steps[int(rng.uniform(0.45, 0.65) * len(steps))]
    draft.correct[broken] = 0.0


def time_out(draft: Draft, rng: Rng) -> None:
    """Return no score for a share of the rollouts: a grader that runs out of time."""
    draft.correct[rng.random(draft.correct.shape) < rng.uniform(0.08, 0.5)] = np.nan


def time_out_rarely(draft: Draft, rng: Rng) -> None:
    """Return no score for one or two rollouts in a hundred."""
    draft.correct[rng.random(draft.correct.shape) < rng.uniform(0.005, 0.03)] = np.nan


def flip(draft: Draft, rng: Rng) -> None:
    """Turn a share of the verdicts, whatever the completion says."""
    turned = rng.random(draft.correct.shape) < rng.uniform(0.08, 0.25)
    draft.correct = np.where(turned, 1.0 - draft.correct, draft.correct)


def lose_answers(draft: Draft, rng: Rng) -> None:
    """Grade some prompts by wrong answers from some step on: an answer key that was overwritten."""
    prompts, steps = np.unique(draft.prompts), draft.logged_steps
    lost = rng.permutation(prompts)[: int(rng.uniform(0.3, 0.6) * len(prompts))]
    late = draft.steps > steps[int(rng.uniform(0.6, 0.7) * len(steps))]
    draft.correct[late & np.isin(draft.prompts, lost)] = 0.0
