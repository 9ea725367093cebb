"""Writes what an experiment found: NAME.json, NAME.md, NAME.svg, with the command behind them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from buttress.errors import MissingExtraError, UsageError
from buttress.lab.experiments.design import Experiment, Record
from buttress.lab.experiments.duels import duels, won
from buttress.lab.experiments.figures import draw
from buttress.lab.experiments.pages import page
from buttress.lab.experiments.tables import conclude, summarise

if TYPE_CHECKING:
    from rich.console import Console


def run_and_write(
    experiment: Experiment,
    out: str | Path,
    *,
    quick: bool = False,
    workers: int | None = None,
    ray: str | None = None,
    report: Any = None,
) -> list[Path]:
    """Run an experiment into a directory and write its evidence; return the paths."""
    if find_spec("torch") is None or find_spec("transformers") is None:
        raise MissingExtraError.of("the laboratory", "trl")
    from buttress.lab.experiments.runner import run_experiment

    sized = experiment.quick() if quick else experiment
    records: list[Record] = []
    if sized.arms:
        path = Path(out) / f"{experiment.name}-{'quick' if quick else 'full'}.jsonl"
        report = report or (lambda line: sys.stderr.write(f"{line}\n"))
        records = run_experiment(sized, path, workers=workers, ray=ray, report=report)
    probed = list(sized.probe(quick)) if sized.probe else []
    command = f"buttress lab run {experiment.name}" + (" --quick" if quick else "")
    return write_evidence(sized, records, Path(out), command=command, probed=probed)


def write_evidence(
    experiment: Experiment,
    records: Sequence[Record],
    folder: Path,
    *,
    command: str,
    probed: Sequence[Record] = (),
) -> list[Path]:
    """Write NAME.json, NAME.md and NAME.svg into a folder and return their paths.

    The conclusion is the probe's own where there is one, then what the primary measure says, then
    how the contender fared.
    """
    rows = summarise(experiment, records)
    found = experiment.analyse(records, probed) if experiment.analyse else ""
    fought = duels(experiment, records)
    said = (found, conclude(experiment, rows), won(experiment, fought))
    conclusion = " ".join(part for part in said if part)
    folder.mkdir(parents=True, exist_ok=True)
    evidence = {
        "experiment": experiment.name,
        "question": experiment.question,
        "command": command,
        "seeds": sorted({record["seed"] for record in records}),
        "steps": experiment.steps,
        "rows": [*rows, *fought, *probed],
        "conclusion": conclusion,
    }
    paths = [folder / f"{experiment.name}.{end}" for end in ("json", "md", "svg")]
    paths[0].write_text(json.dumps(_known(evidence), indent=1) + "\n")
    drawn = draw(experiment, rows, records, probed, paths[2])
    text = page(experiment, rows, fought, probed, command=command, found=found, picture=drawn)
    paths[1].write_text(text)
    return paths if drawn else paths[:2]


def evidence_index(folder: Path) -> list[dict[str, Any]]:
    """Return what is written in a folder, one entry per experiment, sorted by name.

    Raises `UsageError` where a file is no evidence.
    """
    found = []
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such directory; `buttress lab run NAME` makes one")
    for path in sorted(folder.glob("*.json")):
        try:
            entry = json.loads(path.read_text())
            found.append({name: entry[name] for name in ("experiment", "command", "conclusion")})
            found[-1]["seeds"] = len(entry["seeds"])
        except (ValueError, KeyError, TypeError) as fault:
            raise UsageError(f"{path}: not the evidence of an experiment ({fault!r})") from None
    return found


def render_index(entries: Sequence[dict[str, Any]], console: Console) -> None:
    """Print one paragraph per experiment."""
    if not entries:
        console.print("no evidence here yet; `buttress lab run NAME` writes some", markup=False)
    for entry in entries:
        console.print(f"[bold]{entry['experiment']}[/bold] ({entry['seeds']} seeds)")
        console.print(f"{entry['conclusion'] or 'no conclusion'}", markup=False, highlight=False)
        console.print(f"made by {entry['command']}\n", style="dim", markup=False, highlight=False)


def _known(value: Any) -> Any:
    """Return a value with everything unknown as None, which JSON calls null."""
    if isinstance(value, dict):
        return {name: _known(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_known(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value
