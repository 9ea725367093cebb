"""How bad the collapse is, which kind of group it is made of, and what explains it."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from buttress.measures import KINDS
from buttress.rules import thresholds as at
from buttress.rules.case import Case
from buttress.rules.finding import Severity

Cause = Literal["truncation", "format", "repetition"]


def collapse_severity(case: Case) -> Severity | None:
    """Return how bad the collapse of a run is, None where there is none to speak of."""
    if case.undefined:
        return None
    acr, course = case.acr, case.course
    if course.fallen:
        return Severity.ERROR if course.fallen.length >= at.FALLEN_STEPS else Severity.WARNING
    if course.mastered and (acr > at.ACR_STALLED or course.late):
        # a run that ends well may still have lost many steps on the way, or most of them at the end
        costly = acr >= at.ACR_DEAD or _was_stuck(case)
        return Severity.WARNING if costly else Severity.INFO
    if acr >= at.ACR_DEAD:
        return Severity.ERROR
    if acr > at.ACR_STALLED:
        return Severity.ERROR if course.stalled else Severity.WARNING
    late, longest = course.late, course.longest
    if late:
        dead = late.acr >= at.ACR_DEAD and late.length >= at.LATE_STEPS
        return Severity.ERROR if dead or course.stalled else Severity.WARNING
    recovered = longest is not None and longest.length > at.STALLED_STEPS
    return Severity.INFO if recovered else None


def _was_stuck(case: Case) -> bool:
    """Whether a spell above the line outlasted the paper's limit and was not one of success."""
    steps = case.steps
    for spell in case.course.spells:
        inside = (steps.step >= spell.first) & (steps.step <= spell.last)
        right, tied = steps.all_correct[inside].sum(), spell.tied
        if spell.length > at.STALLED_STEPS and right < tied / 2:
            return True
    return False


def tied_by_kind(case: Case) -> dict[str, int]:
    """Return the number of tied groups of each kind."""
    counts = case.counts.as_dict()
    return {kind: counts[kind] for kind in KINDS}


def tied_in_question(case: Case) -> NDArray[np.bool_]:
    """Return the tied groups that the verdict is about: all, or those since the run fell."""
    fallen = case.course.fallen
    tied = case.summary.tied
    return tied if fallen is None else tied & (case.groups.step >= fallen.first)


def dominant_kind(case: Case) -> str | None:
    """Return the kind that most tied groups in question are of, None where no kind dominates."""
    tied = tied_in_question(case)
    kinds = {kind: int((of_kind(case, kind) & tied).sum()) for kind in KINDS}
    kind = max(kinds, key=lambda name: kinds[name])
    total = sum(kinds.values())
    return kind if total and kinds[kind] >= at.DOMINANT_KIND * total else None


def of_kind(case: Case, kind: str) -> NDArray[np.bool_]:
    """Return the tied groups of one kind."""
    return case.kinds == KINDS.index(kind)


def cause(case: Case) -> Cause | None:
    """Return what accounts for at least half of the tied groups, the most basic cause first."""
    tied = tied_in_question(case)
    repeats = case.repeats
    # a mastered prompt may well get one and the same long answer
    if repeats and repeats.long:
        stuck = repeats.identical & ~case.all_right
        if _share(stuck, tied) >= at.EXPLAINS:
            return "repetition"
    if case.length_cap and case.length_cap.share_of(tied) >= at.EXPLAINS:
        return "truncation"
    if _share(case.shaping.lifted, tied) >= at.EXPLAINS:
        return "format"
    return None


def _share(mask: NDArray[np.bool_], of: NDArray[np.bool_]) -> float:
    total = int(of.sum())
    return float((mask & of).sum()) / total if total else 0.0
