"""Was the log written after a filter had removed the tied groups?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from buttress.groups import Groups, LogFacts
from buttress.measures import GroupSummary
from buttress.rules import thresholds


@dataclass(frozen=True, slots=True)
class FilterSigns:
    """Why a log without a single tied group looks filtered.

    Attributes
    ----------
    groups_per_step
        Smallest and largest number of groups in a step.
    missing
        Groups that the configuration or the fullest step leads one to expect and that are absent.
    chance
        Probability that no group ties, under the beta-binomial that fits these groups best.
    conclusive
        The ACR cannot be measured here.
    """

    groups_per_step: tuple[int, int]
    missing: int
    chance: float
    conclusive: bool


def signs(summary: GroupSummary, groups: Groups, facts: LogFacts) -> FilterSigns | None:
    """Return the signs of a filter, or None where a group is tied or nothing points to one."""
    eligible = int(summary.eligible.sum())
    if not eligible or summary.tied.any():
        return None
    per_step = np.unique(groups.step, return_counts=True)[1]
    expected = facts.groups_per_step or int(per_step.max())
    short = per_step < expected
    missing = int((expected - per_step)[short].sum())
    if not facts.groups_per_step and int(short.sum()) < thresholds.FILTER_SHORT_STEPS:
        missing = 0  # one short step is the torn end of a file
    chance = no_tie_probability(summary, groups)
    conclusive = facts.filtered or missing > 0
    if not conclusive and not chance < thresholds.FILTER_CHANCE:
        return None
    return FilterSigns((int(per_step.min()), int(per_step.max())), missing, chance, conclusive)


def no_tie_probability(summary: GroupSummary, groups: Groups) -> float:
    """Return how likely it is that none of these groups ties, if nothing was filtered.

    For rewards of two levels, success counts are fitted by the beta-binomial that explains them
    best *without* a filter, which favours the innocent reading; then
    ``P = prod_g (1 - P(k_g = 0) - P(k_g = n_g))``. NaN for rewards of more levels. Our own test.
    """
    from scipy.optimize import minimize  # slow to import, and rarely needed
    from scipy.special import betaln

    rewards = groups.rewards
    levels = np.unique(rewards[np.isfinite(rewards)])
    if len(levels) != 2 or not summary.eligible.any():
        return float(np.nan)
    wins = np.bincount(groups.group_of[rewards == levels[1]], minlength=len(groups))
    pairs = np.stack([wins, summary.scorable], axis=1)[summary.eligible]
    outcomes, times = np.unique(pairs, axis=0, return_counts=True)
    k, n = outcomes.T

    def loss(logs: np.ndarray) -> float:
        a, b = np.exp(np.clip(logs, -5, 9))
        return -float((times * (betaln(k + a, n - k + b) - betaln(a, b))).sum())

    a, b = np.exp(np.clip(minimize(loss, np.zeros(2), method="Nelder-Mead").x, -5, 9))
    tie = np.exp(betaln(n + a, b) - betaln(a, b)) + np.exp(betaln(a, n + b) - betaln(a, b))
    return float(np.exp((times * np.log1p(-np.minimum(tie, 1 - 1e-12))).sum()))
