"""Which columns are reward functions, and with what weights TRL summed them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.logs.trainer_state import TrainerLog
from buttress.logs.trl_files import FIXED, Dump
from buttress.logs.trl_groups import NOISE, blocks
from buttress.logs.trl_stream import logged_means, same_means

Matrix = NDArray[np.float64]

# A component that says whether the task was solved goes by one of these names.
_CORRECT = re.compile(
    r"accura|correct|exact_?match|solve|verif|(^|_)(acc|em|pass|passed|success|right)(_|$)", re.I
)
_SHAPED = re.compile(r"format|length|len$|think|tag|style|penal|bonus|brev|repeti", re.I)

_TELLING_GROUPS = 2000  # more add nothing to the fit
_PRECISION = 2e-3  # of the direction of a group's advantages, which are float32
_SUM_PRECISION = 1e-4
_OPEN = 1e-5  # two directions explain the advantages equally well
_TIED = 1e-6
_MOST = 0.95


class Rewards(NamedTuple):
    """The reward functions of a run.

    Attributes
    ----------
    names
        Their columns.
    weights
        What each was multiplied by, in that order.
    how
        Where this comes from, for the report.
    """

    names: tuple[str, ...]
    weights: tuple[float, ...]
    how: str


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
        fits = (aside <= _PRECISION * scale) & (silent | (along > 0))
        return len(fits) > 0 and bool(fits.mean() >= _MOST)

    def across(self) -> Matrix:
        """Return the part of the components across the advantages, ``(I - u u') C``."""
        along = np.einsum("gs,gsk->gk", self.direction, self.components)
        return self.components - self.direction[..., None] * along[:, None, :]


def total(columns: Sequence[NDArray[np.float64]], weights: Sequence[float]) -> Matrix:
    """Return TRL's sum: ``sum_k w_k r_k`` over the known components, NaN where none is known.

    >>> total([np.array([1.0, np.nan]), np.array([0.5, np.nan])], [1.0, 2.0])
    array([ 2., nan])
    """
    stacked = np.stack(columns, axis=-1)
    known = np.isfinite(stacked)
    summed = np.where(known, stacked, 0.0) @ np.asarray(weights)
    return np.where(known.any(axis=-1), summed, np.nan)


def correctness(names: Sequence[str], dumps: Sequence[Dump]) -> str | None:
    """Return the component that says whether the task was solved, by its name and range [0, 1]."""
    for name in names:
        if not _CORRECT.search(name) or _SHAPED.search(name):
            continue
        values = np.concatenate([dump.numbers[name] for dump in dumps if name in dump.numbers])
        known = values[np.isfinite(values)]
        if len(known) and known.min() >= 0 and known.max() <= 1:
            return name
    return None


def rewards(
    dumps: Sequence[Dump], floats: Sequence[str], log: TrainerLog | None, size: int | None
) -> Rewards:
    """Return the reward functions and their weights.

    The functions are those that the trainer's log names. Without it they are the columns of
    floating-point numbers before ``advantage``, extra columns after them left out as far as the
    advantages tell (reward functions are written first). The weights are 1 unless the logged sums
    or the logged advantages contradict that; then they are fitted to both.
    """
    there = [name for name in floats if name not in FIXED]
    named = [name for name in (log.reward_functions if log else []) if _present(name, dumps)]
    names = named or there
    if not names:
        return Rewards((), (), "no column holds rewards")
    evidence = _evidence(dumps, names, log, size)
    if named:
        weights, how = _weights(evidence)
        return Rewards(tuple(names), weights, how)
    for count in range(len(names), 0, -1):
        if evidence.of(count).advantages_fit(np.ones(count)):
            return _leading(names, (1.0,) * count, "weights of 1, which the advantages confirm")
    weights, how = _weights(evidence)
    # functions are written before extra columns: what ends the list without weight is none
    count = max((at + 1 for at, one in enumerate(weights) if one), default=1)
    return _leading(names, weights[:count], how)


def _leading(names: Sequence[str], weights: tuple[float, ...], how: str) -> Rewards:
    chosen, others = names[: len(weights)], names[len(weights) :]
    if others:
        how += f"; {', '.join(others)} taken as extra columns and not as rewards"
    return Rewards(tuple(chosen), weights, how)


def _weights(evidence: Evidence) -> tuple[tuple[float, ...], str]:
    ones = np.ones(evidence.components.shape[-1])
    if not len(evidence.totals) and not len(evidence.direction):
        return tuple(ones), "weights of 1, which nothing in the log confirms"
    if evidence.sums_fit(ones) or (not len(evidence.totals) and evidence.advantages_fit(ones)):
        return tuple(ones), "weights of 1, which the log confirms"
    for fitted in (_fit_sums(evidence, joint=False), _fit_sums(evidence, joint=True)):
        if fitted is not None and evidence.sums_fit(fitted):
            return tuple(fitted.tolist()), "weights fitted to the logged mean rewards"
    fitted = _fit_direction(evidence)
    if fitted is not None and evidence.advantages_fit(fitted):
        return tuple(fitted.tolist()), "weights fitted to the advantages, up to a common factor"
    return tuple(ones), "weights unknown and taken as 1: the log fits no weighted sum"


def _fit_sums(evidence: Evidence, *, joint: bool) -> NDArray[np.float64] | None:
    """Return the least squares weights of the logged sums, with the advantages where `joint`."""
    system, right = evidence.means, evidence.totals
    if joint:
        across = evidence.across().reshape(-1, system.shape[1])
        system = np.concatenate([system, across])
        right = np.concatenate([right, np.zeros(len(across))])
    seen = np.abs(system).max(axis=0, initial=0.0) > 0
    if not len(evidence.totals) or not seen.any():
        return None
    found = np.ones(len(seen))
    found[seen], _, rank, _ = np.linalg.lstsq(system[:, seen], right, rcond=1e-6)
    return _rounded(found) if rank == seen.sum() else None


def _fit_direction(evidence: Evidence) -> NDArray[np.float64] | None:
    """Return the weights that the advantages leave, the largest scaled to 1, or None if several do.

    In a group the advantages are the centred sum ``C w`` times an unknown positive factor, so the
    part of ``C w`` across them is zero. Over all groups, w is the eigenvector to the eigenvalue
    zero of ``sum_g C'(I - u u')C``. A component that never varies within a group cannot be seen
    and gets 1; it moves no advantage either.
    """
    spread = np.sqrt((evidence.components**2).sum(axis=(0, 1)))
    seen = spread > 0
    if not seen.any():
        return None
    across = evidence.across()[..., seen] / spread[seen]
    values, vectors = np.linalg.eigh(np.einsum("gsi,gsj->ij", across, across))
    if len(values) > 1 and values[1] <= max(_OPEN, 100 * abs(values[0])):
        return None
    along = np.einsum("gs,gsk->k", evidence.direction, evidence.components[..., seen])
    weights = vectors[:, 0] / spread[seen]
    weights *= np.sign(along @ weights) / np.abs(weights).max()
    found = np.ones(len(seen))
    found[seen] = weights
    return _rounded(found)


def _rounded(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Drop the digits that float32 does not hold."""
    return np.array([float(f"{one:.3g}") if abs(one) > _PRECISION else 0.0 for one in weights])


def _present(name: str, dumps: Sequence[Dump]) -> bool:
    return any(name in dump.numbers for dump in dumps)


def components(dump: Dump, names: Sequence[str]) -> list[NDArray[np.float64]]:
    """Return the columns of a dump; one that it lacks is unknown."""
    return [dump.numbers.get(name, np.full(len(dump), np.nan)) for name in names]


def _evidence(
    dumps: Sequence[Dump], names: Sequence[str], log: TrainerLog | None, size: int | None
) -> Evidence:
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
