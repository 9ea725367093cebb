"""Write the small verl dumps of this folder: additions, right more often as the steps go by.

The rows have the columns and the order that verl 0.9.1 writes: `_log_rollout_data` of
`trainer/ppo/ray_trainer.py` (legacy, with math_dapo's reward) and of `trainer/ppo/v1`.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from uuid import UUID

HERE = Path(__file__).parent
STEPS, PROMPTS, SAMPLES = 3, 4, 4


def rollouts(rng: random.Random, step: int):
    """Yield prompt, completion, answer, whether it is right, prompt number and sample."""
    for prompt in range(PROMPTS):
        a, b = rng.randrange(10, 99), rng.randrange(10, 99)
        question = f"user\nWhat is {a} + {b}? Answer in \\boxed{{}}.\nassistant\n"
        skill = (step - 1) * prompt / (STEPS * PROMPTS) * 2
        for sample in range(SAMPLES):
            right = rng.random() < skill
            answer = a + b if right else a + b + rng.choice([-10, -1, 1, 10])
            completion = f"{a} + {b} → adding the tens, then the ones: \\boxed{{{answer}}}"
            yield question, completion, str(a + b), right, prompt, sample


def legacy(rng: random.Random, step: int):
    """Yield the rows of one step of the older layout."""
    for question, completion, truth, right, _, _ in rollouts(rng, step):
        yield {
            "input": question,
            "output": completion,
            "gts": truth,
            "score": 1.0 if right else -1.0,
            "step": step,
            "acc": right,
            "pred": completion.rpartition("{")[2].rstrip("}"),
            "request_id": str(UUID(int=rng.getrandbits(128))),
        }


def v1(rng: random.Random, step: int):
    """Yield the rows of one step of the V1 layout, sorted by uid as verl sorts them."""
    uids = [str(UUID(int=rng.getrandbits(128))) for _ in range(PROMPTS)]
    rows = [
        {
            "input": question,
            "output": completion,
            "gts": truth,
            "score": float(right),
            "step": step,
            "uid": f"{uids[prompt]}_{sample}_0",
        }
        for question, completion, truth, right, prompt, sample in rollouts(rng, step)
    ]
    return sorted(rows, key=lambda row: row["uid"])


if __name__ == "__main__":
    for name, layout in (("verl_legacy", legacy), ("verl_v1", v1)):
        rng = random.Random(7)
        for step in range(1, STEPS + 1):
            lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in layout(rng, step)]
            (HERE / name / f"{step}.jsonl").write_text("".join(lines), encoding="utf-8")
