"""The report as plain data: the schema that other programs read."""

from __future__ import annotations

import re
from math import isfinite
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from buttress import __version__
from buttress.groups import Groups
from buttress.measures import SignalCounts
from buttress.rules import Case, Finding

if TYPE_CHECKING:
    from buttress.report.diagnosis import Diagnosis

SCHEMA = 1
_LONE = re.compile("[\ud800-\udfff]")


def document(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the whole report under the keys of the schema."""
    case = diagnosis.case
    tolerance = case.tolerance
    return {
        "schema": SCHEMA,
        "version": __version__,
        "source": _source(case),
        "tolerance": {
            "atol": tolerance.atol,
            "rtol": tolerance.rtol,
            "resolution": tolerance.resolution,
        },
        "verdict": diagnosis.verdict,
        "measures": diagnosis.measures,
        "steps": _steps(case),
        "findings": [_finding(one) for one in diagnosis.findings],
        "problems": [problem._asdict() for problem in diagnosis.problems],
    }


def measures(case: Case, spent: SignalCounts) -> dict[str, Any]:
    """Return the measures; None where a number is unknown."""
    undefined = case.undefined
    low, high = case.collapse.interval()
    rates = {name: None if undefined else _known(rate) for name, rate in case.acr_by_reward.items()}
    return {
        "acr": _known(case.acr),
        "acr_interval": None if undefined else [low, high],
        "acr_undefined": undefined,
        "acr_by_reward": rates,
        "groups": case.counts.as_dict(),
        "rollouts": {"unscorable": spent.unscorable, "wasted": spent.wasted},
        "wasted_tokens": spent.tokens_wasted,
        "effective_batch": None if undefined else _known(spent.effective_batch),
    }


def to_json(report: dict[str, Any]) -> str:
    """Return strict JSON: what is not a finite number becomes null."""
    return msgspec.json.format(msgspec.json.encode(plain(report)), indent=2).decode()


def plain(value: Any) -> Any:
    """Return a value without NumPy types, tuples, non-finite numbers or lone surrogates."""
    if isinstance(value, dict):
        return {plain(str(key)): plain(one) for key, one in value.items()}
    if isinstance(value, str):
        # file names that are not UTF-8 and broken JSON escapes bring them; no encoder takes them
        return _LONE.sub("\ufffd", value)
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not isfinite(value) else value


def _source(case: Case) -> dict[str, Any]:
    groups, source = case.groups, case.run.source
    return {
        "paths": list(source.paths),
        "format": source.format,
        "rollouts": groups.n_samples,
        "groups": len(groups),
        "steps": len(np.unique(groups.step)),
        "group_sizes": _sizes(groups),
        "inferred": list(source.inferred),
    }


def _sizes(groups: Groups) -> dict[str, int]:
    sizes, counts = np.unique(groups.sizes, return_counts=True)
    return {str(size): int(count) for size, count in zip(sizes, counts, strict=True)}


def _steps(case: Case) -> list[dict[str, Any]]:
    table = case.steps
    names = ("step", "acr", "all_wrong", "all_correct", "tied_between", "mixed", "reward_mean")
    columns = [getattr(table, name).tolist() for name in names]
    if case.undefined:
        columns[1] = [None] * len(table.step)
    return [dict(zip(names, map(_known, row), strict=True)) for row in zip(*columns, strict=True)]


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "code": finding.code,
        "severity": finding.severity.label,
        "steps": None if finding.steps is None else list(finding.steps),
        "message": finding.message,
        "evidence": dict(finding.evidence),
        "advice": [advice._asdict() for advice in finding.advice],
    }


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and not isfinite(value) else value
