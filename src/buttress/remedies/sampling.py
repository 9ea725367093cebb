"""Which prompts to sample, and which groups to train on: DAPO's dynamic sampling and GRESO."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from buttress.errors import UsageError
from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.measures.statistics import ratio
from buttress.measures.summary import GroupSummary
from buttress.remedies import options
from buttress.remedies.registry import remedy
from buttress.remedies.success import Success, check_success, verdict_means


@remedy("dynamic_sampling", "sampling")
@dataclass(kw_only=True, eq=False)
class DynamicSampling:
    """Keep sampling until the batch is full of groups that are not tied.

    ``batch = first `wanted` groups with max - min > tolerance`` of at most `max_batches` generation
    batches; groups beyond that are kept for the next step.

    Ties: tied, unscorable and one-sample groups are dropped. When `max_batches` did not suffice:
    "short" trains on what there is, "fill" fills up with the last dropped groups (their advantage
    is 0), "raise" stops with a message.

    Defaults: max_batches 10 and "raise" are what verl and the authors' recipe do; surplus groups
    are thrown away there (keep_surplus False).

    Cost: 1 / (1 - ACR) rollouts for each one that is trained on, if prompts are alike; `reading`
    says what it was. Surplus groups are one policy update old when they are used.

    Plugs in: around the generation loop: `offer` each generated batch until `full`, then `take`.

    Our reading: keeping the surplus and filling up. A group between wrong and right is kept if its
    rewards differ; the paper's condition, 0 < correct < G, is the same for 0/1 rewards.

    Source: DAPO, arXiv 2503.14476.

    Examples
    --------
    >>> sampler = DynamicSampling(wanted=2, max_batches=3)
    >>> sampler.offer(Groups.from_nested([[1, 1], [0, 1], [0, 0]]), items=["a", "b", "c"])
    >>> sampler.full
    False
    >>> sampler.offer(Groups.from_nested([[1, 0], [1, 0], [1, 1]]), items=["d", "e", "f"])
    >>> sampler.take(), sampler.reading["cost"], sampler.reading["surplus"]
    (['b', 'd'], 3.0, 1)
    """

    wanted: int = 32
    max_batches: int = 10
    on_limit: Literal["short", "fill", "raise"] = "raise"
    keep_surplus: bool = True
    tolerance: Tolerance = field(default=DEFAULT_TOLERANCE, metadata={"common": True})

    def __post_init__(self) -> None:
        options.whole("wanted", self.wanted, 1)
        options.whole("max_batches", self.max_batches, 1)
        options.choice("on_limit", self.on_limit, ("short", "fill", "raise"))
        options.choice("keep_surplus", self.keep_surplus, (True, False))
        self._kept: deque[tuple[Any, int]] = deque()
        self._dropped: deque[tuple[Any, int]] = deque(maxlen=self.wanted)
        self._step = Counter[str]()
        self._read: dict[str, Any] = {}

    def offer(self, groups: Groups, items: Sequence[Any] | None = None) -> None:
        """Take in a generated batch; `items` is what `take` hands back, one per group.

        By default the groups themselves, as `Groups` of one.
        """
        if items is not None and len(items) != len(groups):
            raise UsageError(f"items has {len(items)} entries for {len(groups)} groups")
        summary = GroupSummary.of(groups, self.tolerance)
        for g, (mixed, size) in enumerate(
            zip(summary.mixed.tolist(), groups.sizes.tolist(), strict=True)
        ):
            item = groups.select([g]) if items is None else items[g]
            (self._kept if mixed else self._dropped).append((item, size))
        self._step["batches"] += 1
        self._step["rollouts"] += groups.n_samples
        self._step["groups"] += len(groups)
        self._step["dropped"] += int((~summary.mixed).sum())

    @property
    def full(self) -> bool:
        """Whether to stop generating: the batch is full, or the limit is reached."""
        return len(self._kept) >= self.wanted or self._step["batches"] >= self.max_batches

    def take(self) -> list[Any]:
        """Return the batch of this step and start the next one."""
        missing = self.wanted - len(self._kept)
        if missing > 0 and self.on_limit == "raise":
            raise UsageError(
                f"{self._step['batches']} generation batches gave {len(self._kept)} groups with "
                f"differing rewards of {self.wanted} wanted; {self._step['dropped']} were dropped. "
                "Raise max_batches, offer more prompts a batch, or set on_limit to 'fill'"
            )
        batch = [self._kept.popleft() for _ in range(min(self.wanted, len(self._kept)))]
        filled = 0
        if missing > 0 and self.on_limit == "fill":
            filler = list(self._dropped)[-missing:]
            filled = len(filler)
            batch += filler
        if not self.keep_surplus:
            self._kept.clear()
        trained = sum(size for _, size in batch)
        self._read = {
            **{name: self._step[name] for name in ("batches", "groups", "dropped", "rollouts")},
            "taken": len(batch),
            "filled": filled,
            "surplus": len(self._kept),
            "cost": ratio(self._step["rollouts"], trained),
        }
        self._step.clear()
        self._dropped.clear()
        return [item for item, _ in batch]

    @property
    def reading(self) -> dict[str, Any]:
        """What the last `take` had cost: ``cost`` is rollouts generated per rollout trained on."""
        return dict(self._read)


@remedy("greso", "sampling")
@dataclass(kw_only=True, eq=False)
class Greso:
    """Skip prompts, before sampling them, that were tied at their last visits.

    ``P(sample) = max(p^run, floor)``, run the number of visits in a row, up to the last, that were
    all correct (then p is `p_easy`) or all wrong (`p_hard`). Both p move by `rate` a step, up while
    fewer tied groups are met than wanted and down while more.

    Ties: it is about them: a prompt that keeps tying is tried more and more rarely, never never.

    Defaults: p 0.5 at first, floor 0.01, rate 0.01, range 0.05 to 0.95, a wanted share of 0.25 (one
    third of it easy, two thirds hard), all-correct from a mean of 0.98 and all-wrong up to 0.11:
    the authors' code.

    Cost: none; it saves the rollouts of the skipped prompts.

    Plugs in: before the generation: `choose` among the prompts that come up, `update` with the
    groups.

    Our reading: rewards are read between `bounds`, and the mean of `correct` instead where it is
    known (`success`); a visit that is neither ends the run.

    Source: Zheng et al., arXiv 2506.02177.

    Examples
    --------
    >>> greso = Greso(seed=0)
    >>> for _ in range(9):
    ...     greso.update(Groups.from_nested([[1, 1], [1, 0]], prompt_id=["easy", "live"]))
    >>> greso.choose(["easy", "live", "new"]).tolist()
    [False, True, True]
    """

    p_easy: float = 0.5
    p_hard: float = 0.5
    floor: float = 0.01
    rate: float = 0.01
    target: float = 0.25
    easy_share: float = 1 / 3
    range: tuple[float, float] = (0.05, 0.95)
    right_from: float = 0.98
    wrong_to: float = 0.11
    bounds: tuple[float, float] = (0.0, 1.0)
    success: Success = "correct"
    seed: int = 0

    def __post_init__(self) -> None:
        check_success(self.success)
        self.range = options.bounds("range", self.range, 0, 1)
        self.bounds = options.bounds("bounds", self.bounds, -1e9, 1e9)
        options.number("bounds[1]", self.bounds[1], self.bounds[0], above=True)
        for name in ("floor", "rate", "target", "easy_share", "right_from", "wrong_to"):
            options.number(name, getattr(self, name), 0, 1)
        options.number("p_easy", self.p_easy, *self.range)
        options.number("p_hard", self.p_hard, *self.range)
        options.whole("seed", self.seed, 0)
        self._now = {1: float(self.p_easy), -1: float(self.p_hard)}
        self._runs: dict[Any, int] = {}  # positive: all correct, negative: all wrong
        self._random = np.random.default_rng(self.seed)
        self.reading: dict[str, Any] = {}

    def probability(self, prompts: Sequence[Any]) -> NDArray[np.float64]:
        """Return with which probability each prompt is sampled."""
        runs = np.array([self._runs.get(prompt, 0) for prompt in prompts], dtype=np.float64)
        base = np.where(runs > 0, self._now[1], self._now[-1])
        return np.where(runs == 0, 1.0, np.maximum(base ** np.abs(runs), self.floor))

    def choose(self, prompts: Sequence[Any]) -> NDArray[np.bool_]:
        """Return which of the prompts to sample this time."""
        return self._random.random(len(prompts)) < self.probability(prompts)

    def update(self, groups: Groups) -> None:
        """Take in the groups that were sampled; those without a prompt identity do not count."""
        success, known = group_success(groups, self.bounds, self.success)
        side = np.where(success >= self.right_from, 1, np.where(success <= self.wrong_to, -1, 0))
        side = side[known]
        labels = prompts_of(groups, known)
        for label, now in zip(labels, side.tolist(), strict=True):
            if label is not None:
                run = self._runs.get(label, 0)
                self._runs[label] = run + now if run * now > 0 else now
        if len(side):
            self._move(1, float((side == 1).mean()), self.target * self.easy_share)
            self._move(-1, float((side == -1).mean()), self.target * (1 - self.easy_share))
            self.reading = {
                "easy": float((side == 1).mean()),
                "hard": float((side == -1).mean()),
                "p_easy": self._now[1],
                "p_hard": self._now[-1],
            }

    def state_dict(self) -> dict[str, Any]:
        """Return the state in plain objects that JSON can hold."""
        return {
            "p": [self._now[1], self._now[-1]],
            "prompts": list(self._runs),
            "runs": list(self._runs.values()),
            "random": self._random.bit_generator.state,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self._now = {1: state["p"][0], -1: state["p"][1]}
        self._runs = dict(zip(state["prompts"], state["runs"], strict=True))
        self._random.bit_generator.state = state["random"]

    def _move(self, side: int, share: float, target: float) -> None:
        step = -self.rate if share >= target else self.rate
        self._now[side] = min(max(self._now[side] + step, self.range[0]), self.range[1])


def prompts_of(groups: Groups, keep: NDArray[np.bool_] | slice = slice(None)) -> list[Any]:
    """Return the prompt identity of some of the groups, None where unknown.

    At the cost of these groups: parts of a run share the labels of all its prompts.
    """
    codes = groups.prompt[keep]
    if not len(groups.prompt_labels):
        return [None] * len(codes)
    labels = groups.prompt_labels[codes].tolist()
    for place in np.flatnonzero(codes < 0).tolist():
        labels[place] = None
    return labels


def group_success(
    groups: Groups, bounds: tuple[float, float], success: Success
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the success rate of each group with a scorable reward, and which these are.

    The place of the mean reward between the bounds, or the mean verdict where one is known.
    """
    low, high = bounds
    mean, known = _group_means(groups)
    rate = (mean - low) / (high - low)
    verdict = verdict_means(groups, success)
    if verdict is not None:
        rate = np.where(verdict[1], verdict[0], rate)
    return rate, known


def _group_means(groups: Groups) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the mean scorable reward of each group, and where there is one."""
    scorable = np.isfinite(groups.rewards)
    count = np.bincount(groups.group_of[scorable], minlength=len(groups))
    total = np.bincount(
        groups.group_of[scorable], weights=groups.rewards[scorable], minlength=len(groups)
    )
    return total / np.maximum(count, 1), count > 0
