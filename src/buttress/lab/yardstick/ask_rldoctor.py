"""`rldoctor` on a run of the corpus: it reads the metrics of the steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from buttress.lab.yardstick.draft import Draft
from buttress.lab.yardstick.metrics import step_metrics
from buttress.lab.yardstick.scores import Heard

PACKAGE, COMMAND = "rldoctor", "rldoctor"
_ALARMS = {"INFO": False, "WARNING": True, "CRITICAL": True}
_REGIMES = {
    "too_hard": ("all-wrong-collapse", "advantage-collapse", "verifier-suspect"),
    "saturated": ("all-correct-collapse", "advantage-collapse"),
}
_MEANS = {
    "gradient_pathology": ("update-lost", "advantage-collapse"),
    "length_pathology": ("truncation-collapse",),
    "reward_composition": ("component-collapse", "phantom-signal", "format-saturated"),
    "reward_hacking": ("verifier-suspect",),
    "kl_drift": ("kl-only-gradient",),
}


def prepare(draft: Draft, folder: Path) -> list[str]:
    """Write every metric that a TRL run logs and return the arguments of the call."""
    path = folder / "metrics.jsonl"
    size = draft.reward.shape[1]
    lines = [line | {"num_generations": size} for line in step_metrics(draft)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return ["diagnose", str(path), "--format", "json"]


def hear(out: str) -> list[Heard]:
    """Return the findings; those of severity INFO are no alarms, and OK is none."""
    report: dict[str, Any] = json.loads(out)
    heard = []
    for one in report["findings"]:
        if one["severity"] in _ALARMS:
            causes = _MEANS.get(one["detector"], ())
            if one["detector"] == "advantage_collapse":
                regime = one["metrics"].get("regime")
                causes = _REGIMES.get(regime, ("advantage-collapse",))
            heard.append(Heard(one["detector"], causes, _ALARMS[one["severity"]]))
    return heard
