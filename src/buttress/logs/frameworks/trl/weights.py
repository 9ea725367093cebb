"""Which columns are reward functions, and with what weights TRL summed them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.logs.frameworks.trl.evidence import PRECISION, Evidence, Matrix, gather
from buttress.logs.frameworks.trl.files import FIXED, Dump
from buttress.logs.trackers.trainer_state import TrainerLog

# A component that says whether the task was solved goes by one of these names.
_CORRECT = re.compile(
    r"accura|correct|exact_?match|solve|verif|(^|_)(acc|em|pass|passed|success|right)(_|$)", re.I
)
_SHAPED = re.compile(r"format|length|len$|think|tag|style|penal|bonus|brev|repeti", re.I)

_OPEN = 1e-5  # two directions explain the advantages equally well


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


def total(columns: Sequence[NDArray[np.float64]], weights: Sequence[float]) -> Matrix:
    """Return TRL's sum: ``sum_k w_k r_k`` over the known components, NaN where none is known.

    >>> total([np.array([1.0, np.nan]), np.array([0.5, np.nan])], [1.0, 2.0])
    array([ 2., nan])
    """
    stacked = np.stack(columns, axis=-1)
    known = np.isfinite(stacked)
    summed = np.where(known, stacked, 0.0) @ np.asarray(weights)
    return np.where(known.any(axis=-1), summed, np.nan)


def says_correct(name: str) -> bool:
    """Return whether a reward function's name is that of a verdict on the answer."""
    return bool(_CORRECT.search(name)) and not _SHAPED.search(name)


def correctness(names: Sequence[str], dumps: Sequence[Dump]) -> str | None:
    """Return the component that says whether the task was solved, by its name and range [0, 1]."""
    for name in names:
        if not says_correct(name):
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
    there = [name for name in floats if name not in FIXED and _present(name, dumps)]
    named = [name for name in (log.reward_functions if log else []) if _present(name, dumps)]
    names = named or there
    if not names:
        return Rewards((), (), "no column holds rewards")
    evidence = gather(dumps, names, log, size)
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
    return np.array([float(f"{one:.3g}") if abs(one) > PRECISION else 0.0 for one in weights])


def _present(name: str, dumps: Sequence[Dump]) -> bool:
    return any(name in dump.numbers for dump in dumps)
