"""Any task of reasoning-gym, for language models that read words."""

from __future__ import annotations

from typing import Any

from buttress.errors import MissingExtraError, UsageError
from buttress.lab.tasks.base import Problem, Split

_APART = 1 << 30  # held-out seeds start here; reasoning-gym makes a problem of seed + index


class GymTask:
    """Problems of a reasoning-gym data set, judged by its own scorer.

    Parameters
    ----------
    dataset
        Its name there, e.g. ``basic_arithmetic``.
    config
        Its own options, e.g. ``min_digits=2``; they are the dial of difficulty.

    Notes
    -----
    A problem's split lies in the seed that made it. Small data sets may make the same problem
    twice; a held-out problem that is among those to be trained on is then not held out.
    """

    def __init__(self, dataset: str, **config: Any) -> None:
        try:
            import reasoning_gym
        except ImportError:
            raise MissingExtraError.of("reasoning-gym tasks", "gym") from None
        known = reasoning_gym.factory.DATASETS
        if dataset not in known:
            raise UsageError.unknown("reasoning-gym data set", dataset, known)
        self.name = dataset
        self._make, self._config = reasoning_gym.create_dataset, config
        self._entries: dict[str, dict[str, Any]] = {}
        self._scorer = self._made(1, 0)

    def problems(self, n: int, *, split: Split, seed: int) -> list[Problem]:
        """Return n problems of a split; the same seed gives the same problems."""
        start = seed * 1_000_003 % _APART + (_APART if split == "held_out" else 0)
        entries = list(self._made(n, start))
        self._entries.update((entry["question"], entry) for entry in entries)
        return [Problem(entry["question"], str(entry["answer"])) for entry in entries]

    def verify(self, prompt: str, completion: str) -> float:
        """Return the data set's own score of an answer, in [0, 1].

        Raises `UsageError` for a prompt that `problems` never gave.
        """
        if prompt not in self._entries:
            raise UsageError(f"no problem of {self.name} was asked as {prompt[:60]!r}")
        return float(self._scorer.score_answer(completion.strip(), self._entries[prompt]))

    def _made(self, n: int, seed: int) -> Any:
        try:
            return self._make(self.name, size=n, seed=seed, **self._config)
        except (TypeError, AssertionError, ValueError) as fault:
            raise UsageError(f"reasoning-gym does not take {self._config} here: {fault}") from None
