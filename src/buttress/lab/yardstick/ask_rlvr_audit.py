"""`rlvr-audit` on a run of the corpus: it reads the rewards of each prompt, in groups of one size.

It gives each prompt a verdict and the run a few shares; severities it has none. A verdict counts
for the run where most prompts have it (our reading).
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from buttress.lab.yardstick.draft import Draft
from buttress.lab.yardstick.scores import Heard

PACKAGE, COMMAND = "rlvr-audit", "rlvr-audit"
MOST = 0.5  # of the prompts
LONG = 16  # tokens
_MEANS = {
    "STARVED": ("all-wrong-collapse", "verifier-suspect", "advantage-collapse"),
    "SATURATED": ("all-correct-collapse", "advantage-collapse"),
    "DEPENDENCE_DEAD": ("duplicate-completions",),
    "PSEUDO_SIGNAL": ("verifier-suspect",),
    "SOFT_PLATEAU": ("near-tie-blow-up",),
    "CROSS_PROMPT_MISGROUP": ("broken-grouping",),
}


def prepare(draft: Draft, folder: Path) -> list[str]:
    """Write one line per prompt and return the arguments of the call."""
    rows = np.nonzero(draft.kept)
    groups: dict[int, list[int]] = defaultdict(list)
    for place, number in enumerate(draft.ids[rows].tolist()):
        groups[number].append(place)
    reward = _scaled(draft)[rows]
    sizes = [len(one) for one in groups.values()]
    size = int(np.bincount(sizes).argmax()) if sizes else 1
    prompts = draft.prompts[rows[0]]
    hashes = [zlib.crc32(text.encode()) % 10**6 for text in draft.texts[rows].tolist()]
    # short answers repeat by chance, and every repetition would be held against the run
    long = draft.lengths.mean() >= LONG
    records: dict[str, dict[str, Any]] = {}
    for places in groups.values():
        own = reward[places]
        known = own[np.isfinite(own)]
        if len(places) != size or not len(known):
            continue
        # it takes numbers alone; the mean of the others changes neither rate nor tie
        own = np.where(np.isfinite(own), own, known.mean())
        name = prompts[places[0]]
        record = records.setdefault(name, {"prompt_id": name, "rewards": [], "prompt_hashes": []})
        if long:
            record.setdefault("trajectory_hashes", []).extend(str(hashes[one]) for one in places)
        record["rewards"] += own.tolist()
        record["prompt_hashes"] += prompts[places].tolist()
    path = folder / "groups.jsonl"
    lines = [json.dumps(record) + "\n" for record in records.values()]
    path.write_text("".join(lines), encoding="utf-8")
    return ["inspect", "--file", str(path), "--G", str(size)]


def hear(out: str) -> list[Heard]:
    """Return the verdicts that most prompts have, and the shares of the run above one half."""
    report: dict[str, Any] = json.loads(out)
    if "error" in report:
        return []
    n = max(report["n_prompts"], 1)
    heard = [
        Heard(name, _MEANS[name])
        for name, times in report["verdict_histogram"].items()
        if name in _MEANS and times > MOST * n
    ]
    if report.get("advantage_collapse", {}).get("frac_zero_variance_groups", 0) > MOST:
        heard.append(Heard("frac_zero_variance_groups", ("advantage-collapse",)))
    if report["T5_group_integrity_rate"] > MOST:
        heard.append(Heard("T5_group_integrity_rate", ("broken-grouping",)))
    return heard


def _scaled(draft: Draft) -> np.ndarray:
    """Return the verdicts where they are logged, else the reward between its levels."""
    if "correct" in draft.shows:
        return draft.correct
    reward = draft.reward
    low, high = np.nanmin(reward), np.nanmax(reward)
    return (reward - low) / (high - low) if high > low else reward * 0
