"""Write a run whose correctness is dead on half of its prompts, and diagnose it."""

import json
from pathlib import Path

import numpy as np

import buttress as bt

draws = np.random.default_rng(0)
chance = np.where(np.arange(16) < 8, 0.0, 0.45)  # of a right answer, per prompt

with Path("run.jsonl").open("w") as file:
    for step in range(40):
        for prompt in draws.choice(16, 8, replace=False):
            for sample in range(8):
                correct = float(draws.random() < chance[prompt])
                form = float(draws.random() < 0.6)
                row = {
                    "step": step,
                    "group": f"{step}-{prompt}",
                    "sample": sample,
                    "prompt": f"problem {prompt}",
                    "completion": f"answer {draws.integers(10**9)}",
                    "reward": correct + 0.1 * form,
                    "reward/format": form,
                    "correct": correct,
                }
                file.write(json.dumps(row) + "\n")

diagnosis = bt.diagnose(bt.read("run.jsonl"))
print(diagnosis.verdict, diagnosis.measures["acr_by_reward"])
for finding in diagnosis.findings:
    print(f"{finding.severity.name.lower():8} {finding.rule}: {finding.message}")
diagnosis.to_html("report.html")
