"""`rlprobe` on a run of the corpus: it reads a recording of its own, one row per step."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from buttress.lab.yardstick.draft import Draft
from buttress.lab.yardstick.metrics import step_metrics
from buttress.lab.yardstick.scores import Heard

PACKAGE, COMMAND = "rlprobe", "rlprobe"
_TIED = ("advantage-collapse", "all-wrong-collapse", "all-correct-collapse")
_MEANS = {
    "DEGENERATE_GROUPS": _TIED,
    "ADV_COLLAPSE": _TIED,
    "REWARD_STD_DEATH": _TIED,
    "TRUNCATION_STARVE": ("truncation-collapse",),
    "REPETITION_SPIRAL": ("duplicate-completions",),
    "FORMAT_GAMING": ("format-saturated", "component-collapse", "phantom-signal"),
    "REWARD_HACK_LENGTH": ("phantom-signal",),
    "GRAD_PATHOLOGY": ("update-lost", "impossible-advantage", "unscorable-rewards"),
    "KL_BLOWUP": ("kl-only-gradient",),
}
_NAMES = {
    "reward": "reward_mean",
    "reward_std": "reward_std",
    "frac_reward_zero_std": "zero_variance_group_frac",
    "kl": "kl_mean",
    "entropy": "entropy_mean",
    "loss": "loss",
    "learning_rate": "lr",
    "grad_norm": "grad_norm",
    "completions/mean_length": "completion_len_mean",
    "completions/max_length": "completion_len_max",
    "completions/clipped_ratio": "truncation_rate",
}


def prepare(draft: Draft, folder: Path) -> list[str]:
    """Write a recording and return the arguments of the call."""
    import polars as pl

    place = folder / "recording"
    place.mkdir()
    manifest = {
        "schema_version": 1,
        "run_id": folder.name,
        "created_at": "2026-01-01T00:00:00",
        "algorithm": "grpo",
    }
    (place / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    rows = []
    for line in step_metrics(draft):
        here = draft.steps == line["step"]
        row = {"step": line["step"]}
        row |= {name: line[ours] for ours, name in _NAMES.items() if ours in line}
        row |= {
            f"reward_component.{name}": line[f"rewards/{name}_reward/mean"] for name in draft.parts
        }
        advantages = draft.advantages[here]
        row |= {
            "adv_mean": float(advantages.mean()),
            "adv_std": float(advantages.std()),
            "adv_zero_frac": float((advantages == 0).mean()),
            "nan_count": int(np.isnan(draft.reward[here]).sum()),
            "max_len_hit_frac": float((~draft.ended[here]).mean()),
            # of a group's completions, those that repeat another of them
            "repetition_rate": float(
                np.mean([1 - len(set(texts)) / len(texts) for texts in draft.texts[here]])
            ),
        }
        rows.append(row)
    pl.DataFrame(rows).fill_nan(None).write_parquet(place / "steps.parquet")
    return ["doctor", str(place), "--json"]


def hear(out: str) -> list[Heard]:
    """Return the findings; those of severity info are no alarms."""
    found = json.loads(out)
    findings = found["findings"] if isinstance(found, dict) else found
    return [
        Heard(name, _MEANS.get(name, ()), one["severity"] != "info")
        for one in findings
        for name in (one["signature_id"],)
    ]
