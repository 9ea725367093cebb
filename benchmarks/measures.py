"""What it costs to measure groups, against plain passes of NumPy over the same rewards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import process_time

import numpy as np

import buttress as bt
from benchmarks.timing import Row, medians
from buttress.groups import check_grouping
from buttress.measures import (
    CollapseCounts,
    GroupSummary,
    by_step,
    collapse_rate_by_reward,
    distinct_completions,
    duplicates,
    kinds,
    prompt_counts,
    signal,
    spread,
)

N_GROUPS, SIZE = 100_000, 8


def rows() -> list[Row]:
    """Measure 100,000 groups of 8, then all of a run of a million rollouts."""
    return [*_small(), *_million()]


def _small() -> list[Row]:
    draws = np.random.default_rng(0)
    rates = draws.beta(0.3, 0.4, N_GROUPS)
    binary = (draws.random((N_GROUPS, SIZE)) < rates[:, None]).astype(np.float64)
    sizes = draws.integers(1, 2 * SIZE, N_GROUPS)
    cells = {
        "{0, 1} in groups of 8": bt.Groups.from_dense(binary, step=np.arange(N_GROUPS) // 500),
        "continuous in groups of 8": bt.Groups.from_dense(draws.normal(size=(N_GROUPS, SIZE))),
        "ragged groups of 1 to 15": bt.Groups.from_flat(
            (draws.random(sizes.sum()) < 0.5).astype(float), np.repeat(np.arange(N_GROUPS), sizes)
        ),
    }
    one = cells["{0, 1} in groups of 8"]
    calls: dict[str, Callable[[], object]] = {
        f"ACR and composition, {name}": lambda groups=groups: _acr(groups)
        for name, groups in cells.items()
    }
    calls["by_step"] = lambda: by_step(_fresh(one))
    calls["kinds"] = lambda: _kinds(_fresh(one))
    calls["range"] = lambda: np.ptp(binary, axis=1)
    took = medians(calls, clock=process_time)
    return [
        Row(
            f"{name}, 100,000 groups",
            took[name],
            "np.ptp(rewards, axis=1)",
            took["range"],
            "20 ms",
            took[name] < 0.02,
        )
        for name in calls
        if name != "range"
    ]


def _million() -> list[Row]:
    draws = np.random.default_rng(1)
    n_groups = 125_000
    names = np.array([f"prompt-{i:06d}" for i in range(100_000)], dtype=object)
    prompt = np.repeat(draws.integers(0, len(names), n_groups), SIZE)
    ids = np.repeat(np.arange(n_groups), SIZE)
    rewards = (draws.random(len(ids)) < np.repeat(draws.beta(0.3, 0.4, n_groups), SIZE)).astype(
        float
    )
    columns = {
        "step": ids // 1250,
        "prompt_id": names[prompt],
        "correct": rewards.copy(),
        "reward/format": draws.random(len(ids)),
        "length": draws.integers(10, 4000, len(ids)),
        "completion": draws.integers(0, 2**62, len(ids)),
        "sample": np.tile(np.arange(SIZE), n_groups),
    }
    order = draws.permutation(len(ids))
    shuffled = {name: column[order] for name, column in columns.items()}
    groups = bt.Groups.from_flat(rewards, ids, **columns)
    matrix = rewards.reshape(-1, SIZE)
    took = medians(
        {
            "range": lambda: np.ptp(matrix, axis=1),
            "argsort": lambda: np.argsort(ids[order], kind="stable"),
            "in order": lambda: bt.Groups.from_flat(rewards, ids, **columns),
            "in any order": lambda: bt.Groups.from_flat(rewards[order], ids[order], **shuffled),
            "all": lambda: _everything(_fresh(groups)),
        },
        repetitions=5,
        clock=process_time,
    )
    done, least = took["all"], took["range"]
    return [
        Row(
            "all measures of a diagnosis, 10^6 rollouts",
            done,
            "np.ptp",
            least,
            "400 ms",
            done < 0.4,
        ),
        Row("Groups.from_flat, 10^6 rows in order", took["in order"], "np.ptp", least),
        Row("... in any order", took["in any order"], "np.argsort(ids)", took["argsort"]),
    ]


def _fresh(groups: bt.Groups) -> bt.Groups:
    """Return the groups without anything that was derived from them."""
    return replace(groups)


def _acr(groups: bt.Groups) -> object:
    groups = _fresh(groups)
    return bt.collapse_rate(groups), bt.composition(groups)


def _kinds(groups: bt.Groups) -> object:
    return kinds(groups, GroupSummary.of(groups))


def _everything(groups: bt.Groups) -> object:
    return (
        check_grouping(groups),
        CollapseCounts.of(groups).interval(),
        bt.composition(groups),
        _kinds(groups),
        by_step(groups),
        collapse_rate_by_reward(groups),
        signal(groups),
        spread(groups),
        prompt_counts(groups),
        duplicates(groups),
        distinct_completions(groups),
    )
