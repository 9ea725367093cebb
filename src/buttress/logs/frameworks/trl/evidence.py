"""What a log of TRL knows of the sum of its reward functions: advantages and logged means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.logs.frameworks.trl.files import Dump
from buttress.logs.frameworks.trl.groups import NOISE, blocks
from buttress.logs.frameworks.trl.stream import logged_means, same_means
from buttress.logs.trackers.trainer_state import TrainerLog

Matrix = NDArray[np.float64]

# Of the length of the sum across the direction of the advantages, which are float32.
PRECISION = 2e-3
_SUM_PRECISION = 1e-4
_TELLING_GROUPS = 2000  # more add nothing to the fit
_TIED = 1e-6
_MOST = 0.95


class Evidence(NamedTuple):
    """What the log knows of the sum of the components.

    Attributes
    ----------
    components
        ``(group, sample, component)``, centred in each group; null is 0, as TRL sums.
    direction
        ``(group, sample)``, the advantages at length 1; all 0 where they are zero.
    means
        ``(generation, component)``, null as 0.
    totals
        ``(generation,)``, the mean sum that the trainer logged.
    """

    components: Matrix
    direction: Matrix
    means: Matrix
    totals: NDArray[np.float64]

    def of(self, count: int) -> Evidence:
        """Return what there is on the first `count` components."""
        return self._replace(components=self.components[..., :count], means=self.means[:, :count])

    def sums_fit(self, weights: NDArray[np.float64]) -> bool:
        """Return whether the weights explain the logged sums."""
        apart = np.abs(self.means @ weights - self.totals)
        close = apart <= _SUM_PRECISION * np.maximum(1, np.abs(self.totals))
        return len(close) > 0 and bool(close.mean() >= _MOST)

    def advantages_fit(self, weights: NDArray[np.float64]) -> bool:
        """Return whether the weighted sums point where the advantages do."""
        summed = self.components @ weights
        along = (summed * self.direction).sum(axis=1)
        aside = np.linalg.norm(summed - along[:, None] * self.direction, axis=1)
        silent = ~self.direction.any(axis=1)
        scale = np.where(silent, np.linalg.norm(self.components, axis=(1, 2)), along)
        fits = (aside <= PRECISION * scale) & (silent | (along > 0))
        return len(fits) > 0 and bool(fits.mean() >= _MOST)

    def across(self) -> Matrix:
        """Return the part of the components across the advantages, ``(I - u u') C``."""
        along = np.einsum("gs,gsk->gk", self.direction, self.components)
        return self.components - self.direction[..., None] * along[:, None, :]


def gather(
    dumps: Sequence[Dump], names: Sequence[str], log: TrainerLog | None, size: int | None
) -> Evidence:
    """Return the evidence of a run's dumps, whose groups are blocks of `size`."""
    groups: list[tuple[Matrix, NDArray[np.float64]]] = []
    for dump in dumps:
        if size and len(groups) < _TELLING_GROUPS:
            groups += _telling(dump, np.stack(components(dump, names), axis=-1), size)
    sums = list(_sums(dumps, names, log)) if log else []
    k = len(names)
    return Evidence(
        np.array([centred for centred, _ in groups]).reshape(len(groups), -1 if groups else 1, k),
        np.array([unit for _, unit in groups]).reshape(len(groups), -1 if groups else 1),
        np.array([mean for mean, _ in sums]).reshape(-1, k),
        np.array([logged for _, logged in sums]),
    )


def _sums(
    dumps: Sequence[Dump], names: Sequence[str], log: TrainerLog
) -> Iterator[tuple[NDArray[np.float64], float]]:
    """Yield the means of the components, null as 0, and the logged mean of their sum.

    Without nulls the logged means of the components are just that. With them the rows are asked,
    of those records that speak of one dump only.
    """
    at = {dump.step: dump for dump in dumps if not dump.headless}
    nulls = any(np.isnan(one).any() for dump in dumps for one in components(dump, names))
    for step, record in log.generations.items():
        logged, means = record.get("reward"), logged_means(record)
        if not isinstance(logged, int | float) or logged != logged:
            continue
        if not nulls and all(name in means for name in names):
            yield np.array([means[name] for name in names]), float(logged)
        elif step in at and same_means(at[step], record):
            values = np.stack(components(at[step], names), axis=-1)
            scorable = np.isfinite(values).any(axis=1)
            yield np.nan_to_num(values[scorable]).mean(axis=0), float(logged)


def _telling(dump: Dump, values: Matrix, size: int) -> Iterator[tuple[Matrix, NDArray[np.float64]]]:
    """Yield the whole groups of a dump in which a component varies."""
    advantage = dump.numbers.get("advantage")
    if advantage is None:
        return
    number = blocks(dump, size)
    for start in np.flatnonzero((number >= 0) & (np.diff(number, prepend=-1) != 0)):
        rows = slice(start, start + size)
        here, logged = values[rows], advantage[rows]
        scorable = np.asarray(np.isfinite(here).any(axis=1))
        if len(here) < size or scorable.sum() < 2 or not np.isfinite(logged).all():
            continue
        here = np.nan_to_num(here)
        centred = np.where(scorable[:, None], here - here[scorable].mean(axis=0), 0.0)
        width, largest = np.abs(centred).max(), np.abs(logged).max()
        if width <= _TIED * max(1.0, np.abs(here).max()):
            continue
        silent = largest <= min(NOISE, NOISE * width)
        yield centred, np.zeros(size) if silent else logged / np.linalg.norm(logged)


def components(dump: Dump, names: Sequence[str]) -> list[NDArray[np.float64]]:
    """Return the columns of a dump; one that it lacks is unknown."""
    return [dump.numbers.get(name, np.full(len(dump), np.nan)) for name in names]
