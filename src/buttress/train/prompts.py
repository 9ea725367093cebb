"""Which problems a generation asks: an endless stream over the data set, shuffled anew each time.

A stream is a function of the seed and of how many problems were taken, so that a resumed run asks
what the uninterrupted one would have asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from buttress.errors import UsageError
from buttress.groups import Groups
from buttress.remedies.pools import DifficultyPools
from buttress.remedies.sampling import DynamicSampling, Greso

_PATIENCE = 1000  # problems looked at for each one that is wanted, before any is taken


class PromptStream:
    """Rows of a data set in a seeded order, one pass after the other.

    Parameters
    ----------
    identities
        Identity of each row's prompt, as the rollouts carry it.
    seed
        Of the order.
    sampling
        A sampling remedy that chooses among the rows, or None. `DynamicSampling` does not choose:
        it takes more rows than others.

    Examples
    --------
    >>> stream = PromptStream(["a", "b", "c"], seed=0)
    >>> sorted(stream.take(3))
    [0, 1, 2]
    >>> state = stream.state_dict()
    >>> first = stream.take(4)
    >>> stream.load_state_dict(state)
    >>> stream.take(4) == first
    True
    """

    def __init__(self, identities: Sequence[str], *, seed: int, sampling: Any = None) -> None:
        if not identities:
            raise UsageError("the data set has no rows")
        self._identities = list(identities)
        self._seed = seed
        self._taken = 0
        self._pass: tuple[int, list[int]] = (-1, [])
        self.sampling = sampling
        if isinstance(sampling, DifficultyPools):
            self._row_of = {name: row for row, name in enumerate(self._identities)}

    def take(self, count: int) -> list[int]:
        """Return the rows of the next `count` groups."""
        if isinstance(self.sampling, Greso):
            return self._chosen(self.sampling, count)
        if isinstance(self.sampling, DifficultyPools):
            return self._drawn(self.sampling, count)
        return [self._next() for _ in range(count)]

    def learn(self, groups: Groups) -> None:
        """Tell the sampling what came out."""
        if self.sampling is not None and not isinstance(self.sampling, DynamicSampling):
            self.sampling.update(groups)

    def state_dict(self) -> dict[str, Any]:
        """Return the state in plain objects that JSON can hold."""
        kept = hasattr(self.sampling, "state_dict")
        return {"taken": self._taken, "sampling": self.sampling.state_dict() if kept else None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self._taken = int(state["taken"])
        if state["sampling"] is not None:
            self.sampling.load_state_dict(state["sampling"])

    def _next(self) -> int:
        turn, at = divmod(self._taken, len(self._identities))
        if self._pass[0] != turn:
            order = np.random.default_rng([self._seed, turn]).permutation(len(self._identities))
            self._pass = turn, order.tolist()
        self._taken += 1
        return self._pass[1][at]

    def _chosen(self, greso: Greso, count: int) -> list[int]:
        found: list[int] = []
        for looked in range(_PATIENCE * count):
            if len(found) == count:
                break
            row = self._next()
            # where all are skipped again and again, the last ones are taken as they come
            late = looked >= _PATIENCE * count - count
            if greso.choose([self._identities[row]])[0] or late:
                found.append(row)
        return found

    def _drawn(self, pools: DifficultyPools, count: int) -> list[int]:
        names = pools.draw(self._identities, count)
        if len(names) < count:
            raise UsageError(
                f"the open pools hold {len(names)} problems of the {count} that a generation asks; "
                "open another pool with a weight above 0, or lower prompts"
            )
        return [self._row_of[name] for name in names]
