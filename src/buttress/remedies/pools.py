"""Difficulty pools: draw each batch from prompts of chosen success rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups
from buttress.remedies import options
from buttress.remedies.registry import remedy
from buttress.remedies.sampling import group_success, prompts_of
from buttress.remedies.success import Success, check_success

POOLS = ("unseen", "hard", "medium", "easy")
DEFAULT_WEIGHTS = {"unseen": 1.0, "hard": 0.25, "medium": 1.0, "easy": 0.1}


@remedy("difficulty_pools", "sampling")
@dataclass(kw_only=True, eq=False)
class DifficultyPools:
    """Sort prompts by their success rate into pools and draw a batch with a weight for each pool.

    ``P(prompt) ∝ weights[pool of its success rate]``; pools: unseen, hard (rate at most
    `edges[0]`), medium, easy (rate at least `edges[1]`).

    Ties: prompts that always tie are drawn as rarely as their pool's weight says; they come back
    into play when their rate moves.

    Defaults: edges 0.05 and 0.95, weights 1, 0.25, 1 and 0.1, forget 0.7 a visit: ours. A weight of
    0 closes a pool.

    Cost: none; two numbers of state per prompt.

    Plugs in: in place of the data loader's order: `draw` prompts, `update` with the groups.

    Our reading: pools like these are in use (prime-rl, and the offline and online difficulty
    filters of the source); edges, weights and forgetting are ours. On few prompts concentrating
    hurts: a trial with weights sqrt(p (1 - p)) on 256 prompts gained nothing or lost. A success
    rate is the mean of `correct` where that is known (`success`), else of the reward in `bounds`.

    Source: pools by success rate as in arXiv 2505.07291.

    Examples
    --------
    >>> pools = DifficultyPools(weights={"easy": 0.0})
    >>> pools.update(Groups.from_nested([[1, 1], [1, 0]], prompt_id=["a", "b"]))
    >>> pools.pool_of(["a", "b", "c"])
    ['easy', 'medium', 'unseen']
    >>> sorted(pools.draw(["a", "b", "c"], 2))
    ['b', 'c']
    """

    edges: tuple[float, float] = (0.05, 0.95)
    weights: Mapping[str, float] | None = None
    forget: float = 0.7
    bounds: tuple[float, float] = (0.0, 1.0)
    success: Success = "correct"
    seed: int = 0

    def __post_init__(self) -> None:
        check_success(self.success)
        self.edges = options.bounds("edges", self.edges, 0, 1)
        self.bounds = options.bounds("bounds", self.bounds, -1e9, 1e9)
        options.number("bounds[1]", self.bounds[1], self.bounds[0], above=True)
        options.number("forget", self.forget, 0, 1)
        options.whole("seed", self.seed, 0)
        for name, weight in (self.weights or {}).items():
            options.choice("pool", name, POOLS)
            options.number(f"weights[{name!r}]", weight, 0)
        self._weights = DEFAULT_WEIGHTS | dict(self.weights or {})
        self._seen: dict[Any, tuple[float, float]] = {}  # visits and their summed success
        self._random = np.random.default_rng(self.seed)

    def update(self, groups: Groups) -> None:
        """Take in the groups that were sampled; those without a prompt identity do not count."""
        success, known = group_success(groups, self.bounds, self.success)
        success = np.clip(success, 0, 1)[known]
        for label, rate in zip(prompts_of(groups, known), success.tolist(), strict=True):
            if label is not None:
                visits, total = self._seen.get(label, (0.0, 0.0))
                self._seen[label] = (visits * self.forget + 1, total * self.forget + rate)

    def success_rate(self, prompts: Sequence[Any]) -> NDArray[np.float64]:
        """Return the forgetful success rate of each prompt; NaN where it was never seen."""
        nothing = (np.nan, np.nan)
        seen = np.array([self._seen.get(prompt, nothing) for prompt in prompts]).reshape(-1, 2)
        return seen[:, 1] / seen[:, 0]

    def pool_of(self, prompts: Sequence[Any]) -> list[str]:
        """Return the pool of each prompt."""
        return [POOLS[code] for code in self._codes(prompts)]

    def weight_of(self, prompts: Sequence[Any]) -> NDArray[np.float64]:
        """Return the weight of each prompt in a draw: that of its pool."""
        return np.array([self._weights[name] for name in POOLS])[self._codes(prompts)]

    def draw(self, prompts: Sequence[Any], n: int) -> list[Any]:
        """Return up to n different prompts, drawn by the weights of their pools.

        Fewer than n come back only where the open pools hold fewer.
        """
        options.whole("n", n, 0)
        weight = self.weight_of(prompts)
        open_ = np.flatnonzero(weight > 0)
        # the largest of u^(1/w) are a draw without replacement in proportion to w
        key = np.log(self._random.random(len(open_))) / weight[open_]
        chosen = open_[np.argsort(-key)[:n]]
        return [prompts[place] for place in chosen.tolist()]

    def sizes(self, prompts: Sequence[Any]) -> dict[str, int]:
        """Return how many of the prompts are in each pool."""
        count = np.bincount(self._codes(prompts), minlength=len(POOLS))
        return dict(zip(POOLS, count.tolist(), strict=True))

    def state_dict(self) -> dict[str, Any]:
        """Return the state in plain objects that JSON can hold."""
        return {
            "prompts": list(self._seen),
            "seen": [list(one) for one in self._seen.values()],
            "random": self._random.bit_generator.state,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        seen = [tuple(one) for one in state["seen"]]
        self._seen = dict(zip(state["prompts"], seen, strict=True))
        self._random.bit_generator.state = state["random"]

    def _codes(self, prompts: Sequence[Any]) -> NDArray[np.int64]:
        rate = self.success_rate(prompts)
        codes = np.where(rate <= self.edges[0], 1, np.where(rate >= self.edges[1], 3, 2))
        return np.where(np.isnan(rate), 0, codes)
