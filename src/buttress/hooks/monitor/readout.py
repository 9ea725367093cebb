"""The numbers of a monitor under stable names, each computed when it is asked for."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from buttress.hooks.monitor.forecast import UNKNOWN, Forecast, forecast
from buttress.hooks.monitor.ledger import Ledger
from buttress.hooks.monitor.step_statistics import StepStatistics
from buttress.measures import Levels
from buttress.measures.statistics import ratio
from buttress.rules.correctness import task_like

NAN = math.nan
# Of a set of groups; each also with _window, _early and _run behind it.
SHARES = (
    "acr",
    "all_wrong",
    "all_correct",
    "tied_between",
    "near_tied",
    "unscorable_share",
    "effective_batch",
    "acr_after",
    "truncated",
    "reward_mean",
)
MORE_SHARES = ("wrong_of_tied", "correct_of_tied", "truncated_ties", "acr_correctness")
SCOPES = ("_window", "_early", "_run")
_WINDOWED = {f"{name}_window": name for name in SHARES}
OF_RUN = ("prompts", "prompts_unsolved", "prompts_solved", "wasted_tokens")
OF_FORECAST = ("forecast", "forecast_low", "forecast_high")
NAMES = (
    *(name + scope for name in (*SHARES, *MORE_SHARES) for scope in ("", *SCOPES)),
    *OF_RUN,
    *OF_FORECAST,
)


@functools.cache
def split(name: str) -> tuple[str, str]:
    """Return a name without its scope, and the scope; ``acr_window/correct`` gives ``acr/correct``.

    Examples
    --------
    >>> split("acr_window/correct"), split("all_wrong")
    (('acr/correct', '_window'), ('all_wrong', ''))
    """
    head, slash, component = name.partition("/")
    for scope in SCOPES:
        if head.endswith(scope):
            return head.removesuffix(scope) + slash + component, scope
    return name, ""


def shares(found: StepStatistics | None, levels: Levels) -> dict[str, float]:
    """Return every share of a set of groups; NaN where it is unknown."""
    if found is None:
        return dict.fromkeys((*SHARES, *MORE_SHARES), NAN)
    counts = found.counts(levels.union(found.composition.levels))
    eligible, tied = found.eligible, found.tied
    values = {
        "acr": ratio(tied, eligible),
        "all_wrong": ratio(counts.all_wrong, eligible),
        "all_correct": ratio(counts.all_correct, eligible),
        "tied_between": ratio(counts.tied_between, eligible),
        "near_tied": ratio(counts.near_tied, eligible),
        "unscorable_share": ratio(found.signal.unscorable, found.signal.rollouts),
        "effective_batch": found.signal.effective_batch,
        "acr_after": found.ratio("silent"),
        "truncated": found.ratio("truncated"),
        "reward_mean": found.ratio("reward"),
        "wrong_of_tied": ratio(counts.all_wrong, tied),
        "correct_of_tied": ratio(counts.all_correct, tied),
        "truncated_ties": found.ratio("truncated_ties"),
    }
    components = [name for name in found.pairs if name.startswith("acr/")]
    values |= {name: found.ratio(name) for name in components}
    values["acr_correctness"] = values.get(_correctness(components), NAN)
    return values


def _correctness(components: Iterable[str]) -> str:
    """Return the component that says whether the task was solved, by its name."""
    names = [name.removeprefix("acr/") for name in components]
    if "correct" in names:
        return "acr/correct"
    return next((f"acr/{name}" for name in names if task_like(name)), "")


class Readout:
    """Numbers of a ledger; what did not change is not computed again.

    Attributes
    ----------
    total_steps
        Where the forecast looks to; None for no forecast.
    """

    def __init__(self, ledger: Ledger, total_steps: int | None) -> None:
        self.ledger = ledger
        self.total_steps = total_steps
        self._known: dict[str, tuple[Any, Any]] = {}
        self._of_window: dict[str, float] = {}
        self._window_at = -1  # how often the ledger had settled by then

    def quick(self, name: str) -> float:
        """Return one number for a policy; what costs more than a sum as of the last full block."""
        if name == "acr_window":
            return self.ledger.acr("_window")
        if self._window_at != self.ledger.settled:
            self._of_window, self._window_at = {}, self.ledger.settled
        if name in self._of_window:
            return self._of_window[name]
        base, scope = split(name)
        if scope == "_window":
            value = self._of_window[name] = self._settled(scope).get(base, NAN)
            return value
        return self.value(name)

    def value(self, name: str) -> float:
        """Return one number; NaN where it is unknown."""
        base, scope = split(name)
        if name in OF_FORECAST:
            return self.forecast()[OF_FORECAST.index(name)]
        return self._of_run()[name] if name in OF_RUN else self._scope(scope).get(base, NAN)

    def metrics(self) -> dict[str, float]:
        """Return every number that a tracker is to see."""
        ledger = self.ledger
        ledger.settle()
        now, window = self._scope(""), self._scope("_window")
        known = {name: value for name, value in now.items() if name not in MORE_SHARES}
        known |= {name: window[base] for name, base in _WINDOWED.items()}
        known |= {f"acr{scope}": ledger.acr(scope) for scope in ("_early", "_run")}
        known |= self._of_run()
        return known | dict(zip(OF_FORECAST, self.forecast(), strict=True))

    def forecast(self) -> Forecast:
        """Return where correctness, or else the reward, is heading at the end of the run."""
        version = self.ledger.full_blocks, self.total_steps
        return self._once("forecast", version, self._forecast)

    def _forecast(self) -> Forecast:
        last = self.ledger.steps.last
        if self.total_steps is None or last is None:
            return UNKNOWN
        course = self.ledger.course()
        width = self.ledger.block_width
        complete = course.step + width - 1 <= last
        knows = bool(np.isfinite(course.correct).any())
        values = (course.correct if knows else course.reward)[complete]
        if not len(values):
            return UNKNOWN
        ahead = (self.total_steps - (int(course.step[complete][-1]) + width - 1)) / width
        low, high = (0.0, 1.0) if knows else self.ledger.levels
        return forecast(values, max(ahead, 0.0), bounds=(min(low, 0.0), max(high, 1.0)))

    def _scope(self, scope: str) -> dict[str, float]:
        ledger = self.ledger
        if scope:
            ledger.settle()
            return self._settled(scope)
        version = ledger.added, ledger.levels
        return self._once("", version, lambda: shares(ledger.current(), ledger.levels))

    def _settled(self, scope: str) -> dict[str, float]:
        """Return the shares over a scope, without the groups that still wait to be counted."""
        ledger = self.ledger
        version = ledger.settled, ledger.levels
        return self._once(scope, version, lambda: shares(ledger.over(scope), ledger.levels))

    def _of_run(self) -> dict[str, float]:
        self.ledger.settle()
        return self._once("run", self.ledger.settled, self._run)

    def _run(self) -> dict[str, float]:
        store, tokens = self.ledger.prompts, self.ledger.spent.tokens_wasted
        rate = store.rates()
        known = int(np.isfinite(rate).sum())
        return {
            "prompts": store.seen,
            "prompts_unsolved": ratio(int((rate == 0).sum()), known),
            "prompts_solved": ratio(int((rate == 1).sum()), known),
            "wasted_tokens": NAN if tokens is None else float(tokens),
        }

    def _once(self, key: str, version: Any, compute: Callable[[], Any]) -> Any:
        known = self._known.get(key)
        if known is None or known[0] != version:
            known = self._known[key] = version, compute()
        return known[1]
