"""Prompts that were solved in a stretch of the run and are no longer, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SOLVED, LOST = 0.8, 0.2
LEAST = 8  # rollouts in either stretch
_BLOCKS = 8  # the visits of a prompt are put together into at most so many stretches
_SHUFFLES = 99
_MOST = 300  # prompts that are shuffled
_FALSE = 0.05  # share of false discoveries


@dataclass(frozen=True, eq=False, slots=True)
class Mastery:
    """What became of solved prompts; arrays of shape ``(prompt,)``.

    Attributes
    ----------
    lost
        Solved in a stretch of visits (success rate 0.8 or more), and 0.2 or less from some later
        visit to the end of the run.
    gained
        The same backwards in time.
    compared
        Prompts with several visits and enough rollouts for two stretches.
    p_value
        How often shuffled visits look as if more was lost; 1 where nothing is lost.
    """

    lost: NDArray[np.bool_]
    gained: NDArray[np.bool_]
    compared: NDArray[np.bool_]
    p_value: float


def mastery(
    prompt: NDArray[np.int64],
    step: NDArray[np.int64],
    tries: NDArray[np.int64],
    wins: NDArray[np.float64],
    n_prompts: int,
    *,
    seed: int = 0,
) -> Mastery:
    """Return which prompts were mastered and lost, wherever in the run the stretch lies.

    For each prompt every stretch of visits is held against every later one that reaches the end.
    The pair counts when Fisher's exact test, times the number of pairs, keeps the share of false
    discoveries among all prompts under 5 %. That takes rollouts of a prompt as independent; the
    p value does not: it shuffles the visits of each prompt after it was solved first, so that
    success which only comes and goes from visit to visit shows nothing.

    Parameters
    ----------
    prompt, step, tries, wins
        Shape ``(visit,)``: prompt code (-1 is unknown), training step, scored rollouts, successes.

    Source: the scan is our own; Y. Benjamini and Y. Hochberg, J. R. Stat. Soc. B 57 (1995).

    Examples
    --------
    >>> visits = np.tile([0, 8, 8, 8, 0, 0, 0, 0], 5).astype(float)  # solved in the middle
    >>> found = mastery(np.repeat(range(5), 8), np.tile(range(8), 5), np.full(40, 8), visits, 5)
    >>> found.lost.tolist(), found.p_value <= 0.01
    ([True, True, True, True, True], True)
    """
    known = np.flatnonzero((prompt >= 0) & (tries > 0))
    order = known[np.lexsort((step[known], prompt[known]))]
    prompt, values = prompt[order], np.stack([tries[order].astype(np.float64), wins[order]])
    visits = np.bincount(prompt, minlength=n_prompts)
    total, won = (_summed(prompt, one, n_prompts) for one in values)
    compared = (visits >= 2) & (total >= 2 * LEAST)
    lost, gained = np.zeros((2, n_prompts), dtype=bool)
    could = np.flatnonzero(compared & _could(total, won))
    if not len(could):
        return Mastery(lost, gained, compared, 1.0)
    table = _padded(prompt, values, could, visits)
    n_compared = int(compared.sum())
    score, down = _lost(table, visits[could], n_compared)
    lost[could] = down
    gained[could] = _lost(_reversed(table, visits[could]), visits[could], n_compared)[1]
    p_value = _shuffled(table, visits[could], score, seed) if down.any() else 1.0
    return Mastery(lost, gained, compared, p_value)


def recent(
    prompt: NDArray[np.int64],
    step: NDArray[np.int64],
    tries: NDArray[np.int64],
    wins: NDArray[np.float64],
    n_prompts: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return tries and successes of each prompt over its latest visits with 8 rollouts or more.

    Examples
    --------
    >>> recent(np.zeros(3, int), np.arange(3), np.full(3, 8), np.array([0.0, 4.0, 8.0]), 1)
    (array([8.]), array([8.]))
    """
    known = prompt >= 0
    order = np.lexsort((-step[known], prompt[known]))
    prompt, tries, wins = prompt[known][order], tries[known][order], wins[known][order]
    before = np.cumsum(tries) - tries
    start = np.zeros(n_prompts)
    first = np.append(True, prompt[1:] != prompt[:-1])[: len(prompt)]
    start[prompt[first]] = before[first]
    late = before - start[prompt] < LEAST
    late_prompts = prompt[late]
    return (
        _summed(late_prompts, tries[late], n_prompts),
        _summed(late_prompts, wins[late], n_prompts),
    )


def _summed(
    prompt: NDArray[np.int64], values: NDArray[np.number], n_prompts: int
) -> NDArray[np.float64]:
    return np.bincount(prompt, weights=values, minlength=n_prompts).astype(np.float64)


def _could(total: NDArray[np.float64], won: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the prompts with enough successes and failures for both stretches, in any order."""
    return (won >= SOLVED * LEAST) & (total - won >= (1 - LOST) * LEAST)


def _padded(
    prompt: NDArray[np.int64],
    values: NDArray[np.float64],
    chosen: NDArray[np.int64],
    visits: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return visits by prompt, shape ``(2, prompt, visit)``; zeros after the last visit."""
    ends = np.cumsum(visits)
    place = np.arange(len(prompt)) - (ends - visits)[prompt]
    row = np.full(len(visits), -1)
    row[chosen] = np.arange(len(chosen))
    inside = row[prompt] >= 0
    table = np.zeros((2, len(chosen), int(visits[chosen].max())))
    table[:, row[prompt[inside]], place[inside]] = values[:, inside]
    return table


def _reversed(table: NDArray[np.float64], visits: NDArray[np.int64]) -> NDArray[np.float64]:
    place = visits[:, None] - 1 - np.arange(table.shape[2])
    turned = np.take_along_axis(table, np.broadcast_to(np.maximum(place, 0), table.shape), axis=2)
    return np.where(place >= 0, turned, 0)


def _scan(
    table: NDArray[np.float64], visits: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the best log likelihood ratio of each prompt (0 where no pair fits), and its counts.

    The counts are tries and wins of the stretch and of the end, shape ``(4, prompt)``.
    """
    block = np.arange(table.shape[2]) * _BLOCKS // np.maximum(visits[:, None], _BLOCKS)
    block = np.where(visits[:, None] <= _BLOCKS, np.arange(table.shape[2]), block)
    block = np.minimum(block, _BLOCKS - 1)
    cell = np.arange(len(visits))[:, None] * _BLOCKS + block
    shape = (len(visits), _BLOCKS)
    sums = [
        np.bincount(cell.ravel(), weights=one.ravel(), minlength=shape[0] * shape[1]).reshape(shape)
        for one in table
    ]
    tried, won = (np.concatenate([np.zeros((shape[0], 1)), one.cumsum(1)], 1) for one in sums)
    best, counts = np.zeros(shape[0]), np.zeros((4, shape[0]))
    for end in range(1, _BLOCKS):
        tail = tried[:, -1] - tried[:, end], won[:, -1] - won[:, end]
        down = (tail[0] >= LEAST) & (tail[1] <= LOST * tail[0])
        if not down.any():
            continue
        for stop in range(1, end + 1):
            for start in range(stop):
                peak = tried[:, stop] - tried[:, start], won[:, stop] - won[:, start]
                fits = down & (peak[0] >= LEAST) & (peak[1] >= SOLVED * peak[0])
                if not fits.any():
                    continue
                ratio = np.where(fits, _ratio(*peak, *tail), 0)
                better = ratio > best
                best = np.where(better, ratio, best)
                counts = np.where(better, np.stack([*peak, *tail]), counts)
    return best, counts


def _ratio(*counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log likelihood ratio of two rates against one."""
    n1, k1, n2, k2 = counts
    parts = np.stack([k1, n1 - k1, k2, n2 - k2, n1 + n2])
    whole = np.stack([k1 + k2, n1 + n2 - k1 - k2, n1, n2])
    return _xlogx(parts).sum(axis=0) - _xlogx(whole).sum(axis=0)


def _xlogx(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return x * np.log(np.maximum(x, 1e-300))


def _lost(
    table: NDArray[np.float64], visits: NDArray[np.int64], compared: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    score, counts = _scan(table, visits)
    fits = np.flatnonzero(score > 0)
    p = np.ones(len(score))
    if not len(fits):
        return score, p < 0
    blocks = np.minimum(visits, _BLOCKS)
    pairs = np.maximum((blocks - 1) * blocks * (blocks + 1) / 6, 1)
    p[fits] = pairs[fits] * _fisher(*counts[:, fits])
    ordered = np.sort(p)
    allowed = ordered <= _FALSE * np.arange(1, len(p) + 1) / max(compared, len(p))
    line = ordered[np.flatnonzero(allowed)[-1]] if allowed.any() else -1.0
    return score, p <= line


def _fisher(
    n1: NDArray[np.float64],
    k1: NDArray[np.float64],
    n2: NDArray[np.float64],
    k2: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the chance of k1 or more of the k1 + k2 successes among n1 of the n1 + n2 tries."""
    from scipy.special import betaln  # slow to import, but less so than the distributions

    def log_choose(n: NDArray[np.float64], k: NDArray[np.float64]) -> NDArray[np.float64]:
        return -betaln(n - k + 1, k + 1) - np.log(n + 1)

    won, chance = k1 + k2, np.zeros_like(n1)
    for more in range(int((n1 - k1).max()) + 1):
        k = k1 + more
        possible = (k <= n1) & (k <= won)
        inside = np.where(possible, k, k1)
        log = log_choose(n1, inside) + log_choose(n2, won - inside) - log_choose(n1 + n2, won)
        chance += np.where(possible, np.exp(log), 0)
    return chance


def _shuffled(
    table: NDArray[np.float64], visits: NDArray[np.int64], score: NDArray[np.float64], seed: int
) -> float:
    """Return how often shuffled visits score as high, all prompts taken together."""
    rng = np.random.default_rng(seed)
    if len(visits) > _MOST:
        part = rng.choice(len(visits), _MOST, replace=False)
        table, visits, score = table[:, part], visits[part], score[part]
    place = np.arange(table.shape[2])
    # what came before the first success is learning, and no sign that success comes and goes
    free = (place > _solved_by(table)[:, None]) & (place < visits[:, None])
    higher, seen = 0, float(score.sum())
    for _ in range(_SHUFFLES):
        key = np.where(place < visits[:, None], -1 + place / len(place), 2.0)
        order = np.argsort(np.where(free, rng.random(free.shape), key), axis=1)
        mixed = np.take_along_axis(table, np.broadcast_to(order, table.shape), axis=2)
        higher += int(_scan(mixed, visits)[0].sum() >= seen - 1e-9)
    # ties count, and the order that was seen is one of all orders
    return (1 + higher) / (1 + _SHUFFLES)


def _solved_by(table: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the visit by which each prompt was solved first, over the fewest visits with enough
    rollouts; the last place where it never was.
    """
    tried, won = (np.pad(one.cumsum(axis=1), ((0, 0), (1, 0))) for one in table)
    solved = np.zeros(table.shape[1:], dtype=bool)
    enough = np.zeros(table.shape[1:], dtype=bool)
    for width in range(1, min(LEAST, table.shape[2]) + 1):
        n, k = tried[:, width:] - tried[:, :-width], won[:, width:] - won[:, :-width]
        now = (n >= LEAST) & ~enough[:, width - 1 :]
        solved[:, width - 1 :] |= now & (k >= SOLVED * n)
        enough[:, width - 1 :] |= now
    return np.where(solved.any(axis=1), solved.argmax(axis=1), table.shape[2])
