"""Rollouts of the groups that cost most and teach nothing, to be read by a person."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Text
from buttress.measures import KINDS, GroupSummary, reward_names
from buttress.report import phrases
from buttress.report.chart import Colour
from buttress.report.hostile import clip, safe_name, safe_text
from buttress.report.over_steps import KIND_COLOURS, KIND_NAMES
from buttress.rules import Case

GROUPS = 6
ROLLOUTS = 4
PROMPT_CHARACTERS = 800
COMPLETION_CHARACTERS = 1500
REWARDS = 8

PHANTOM = len(KINDS)  # tied on correctness, though not on the reward
_NAMES = (*(KIND_NAMES[kind] for kind in KINDS), "correctness tied, reward not")
_COLOURS: tuple[Colour, ...] = (*(KIND_COLOURS[kind] for kind in KINDS), "mixed")


@dataclass(frozen=True, slots=True)
class Rollout:
    """One rollout, in words; `completion` is None where the log holds no text."""

    sample: int
    facts: tuple[tuple[str, str], ...]
    completion: str | None


@dataclass(frozen=True, slots=True)
class SampleGroup:
    """A group to look at, and why it was chosen; `no_text` says why texts are missing."""

    kind: str
    colour: Colour
    step: int
    group_id: str
    why: str
    prompt: str
    no_text: str
    rollouts: tuple[Rollout, ...]
    left_out: int


def sample_groups(case: Case, groups: int = GROUPS) -> tuple[SampleGroup, ...]:
    """Return rollouts of the worst groups; texts are fetched for these alone."""
    chosen = worst_groups(case, groups)
    if not chosen:
        return ()
    samples = [
        index
        for group, *_ in chosen
        for index in range(*case.groups.offsets[group : group + 2])[:ROLLOUTS]
    ]
    fetched, no_text = _fetch(case, samples)
    texts = dict(zip(samples, fetched, strict=True))
    return tuple(_sample_group(case, *one, texts, no_text) for one in chosen)


def worst_groups(case: Case, limit: int) -> list[tuple[int, int, str]]:
    """Return ``(group, kind, why)`` of the groups to show, at most one per prompt.

    Prompts are ranked by the tokens (rollouts, where lengths are unknown) that their tied groups
    cost; of each prompt the latest such group is shown. Every kind that occurs is shown once
    before any is shown twice.
    """
    kind = _kinds(case)
    dead = np.flatnonzero(kind >= 0)
    if not len(dead):
        return []
    cost, unit = _cost(case)
    owner = _owners(case)
    # one entry for each prompt and kind: what it cost, how often, its latest group
    pair, entry = np.unique(
        np.stack([owner[dead], kind[dead]], axis=1), axis=0, return_inverse=True
    )
    entry = entry.reshape(-1)
    total = np.bincount(entry, weights=cost[dead])
    times = np.bincount(entry)
    latest = np.zeros(len(pair), dtype=np.int64)
    latest[entry] = dead  # the last assignment stands, and groups are in the order of the log
    ranked = np.argsort(-total, kind="stable").tolist()
    first_of_kind = [
        next(one for one in ranked if pair[one, 1] == code) for code in set(pair[:, 1])
    ]
    order = sorted(first_of_kind, key=ranked.index) + ranked
    picked: dict[int, tuple[int, int, str]] = {}
    for one in order:
        if len(picked) == limit:
            break
        why = f"{phrases.count(int(times[one]), 'group')} like this, {total[one]:,.0f} {unit} spent"
        picked.setdefault(int(pair[one, 0]), (int(latest[one]), int(pair[one, 1]), why))
    return list(picked.values())


def _kinds(case: Case) -> NDArray[np.int64]:
    """Return the kind of each group that taught nothing (about the task), -1 for the others."""
    kind = case.kinds.copy()
    if "correct" in case.groups.columns:
        tied = GroupSummary.of(case.groups, case.tolerance, "correct").tied
        kind[tied & (kind < 0) & case.summary.eligible] = PHANTOM
    return kind


def _cost(case: Case) -> tuple[NDArray[np.float64], str]:
    length = case.groups.column("length")
    if length is None or not np.isfinite(length).any():
        return case.groups.sizes.astype(np.float64), "rollouts"
    per_group = np.bincount(
        case.groups.group_of, weights=np.nan_to_num(length), minlength=len(case.groups)
    )
    return per_group.astype(np.float64), "tokens"


def _owners(case: Case) -> NDArray[np.int64]:
    """Return a code per prompt; a group without a prompt stands for itself."""
    prompt = case.groups.prompt
    return np.where(prompt >= 0, prompt, len(case.groups.prompt_labels) + np.arange(len(prompt)))


def _fetch(case: Case, samples: list[int]) -> tuple[list[Text | None], str]:
    """Return the texts of these samples, and why there are none where there are none."""
    absent: list[Text | None] = [None] * len(samples)
    if case.run.texts is None:
        return absent, "The log holds no texts."
    try:
        texts = list(case.run.texts(samples))
    except OSError as fault:
        return absent, f"The texts could not be read again: {safe_text(fault)}."
    if not any(text.prompt or text.completion for text in texts):
        return absent, "The log holds no texts."
    return list(texts), ""


def _sample_group(
    case: Case, group: int, kind: int, why: str, texts: dict[int, Text | None], no_text: str
) -> SampleGroup:
    groups = case.groups
    first, last = (int(end) for end in groups.offsets[group : group + 2])
    shown = range(first, min(last, first + ROLLOUTS))
    text = texts[first]
    return SampleGroup(
        kind=_NAMES[kind],
        colour=_COLOURS[kind],
        step=int(groups.step[group]),
        group_id=safe_name(groups.group_id[group]),
        why=why,
        prompt="" if text is None else _text(text.prompt, PROMPT_CHARACTERS),
        no_text=no_text,
        rollouts=tuple(_rollout(case, index, index - first, texts[index]) for index in shown),
        left_out=last - first - len(shown),
    )


def _text(text: str, limit: int) -> str:
    return safe_text(clip(text, limit), lines=True)


def _rollout(case: Case, index: int, sample: int, text: Text | None) -> Rollout:
    names = [*reward_names(case.groups)[:REWARDS], "advantage"]
    facts = [(name, case.groups.column(name)) for name in names]
    shown = [
        (safe_name(name), phrases.number(float(column[index])))
        for name, column in facts
        if column is not None
    ]
    length = case.groups.column("length")
    if length is not None:
        known = np.isfinite(length[index])
        shown.append(("tokens", phrases.number(int(length[index])) if known else phrases.DASH))
    truncated = case.groups.column("truncated")
    if truncated is not None and truncated[index] == 1:
        shown.append(("truncated", "yes"))
    completion = None if text is None else _text(text.completion, COMPLETION_CHARACTERS)
    return Rollout(sample, tuple(shown), completion)
