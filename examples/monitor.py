"""Watch a run from inside its loop: numbers per step to a file, a warning, a clean stop."""

import warnings

import numpy as np

import buttress as bt
from buttress.hooks.sinks import JsonLines

warnings.simplefilter("always")
draws = np.random.default_rng(0)
monitor = bt.Monitor(
    policies=[bt.Policy(when="acr > 0.8", for_steps=10, then=("warn", "stop"))],
    sinks=[JsonLines("monitor.jsonl")],
)

for step in range(1, 201):
    chance = 0.3 * 0.97**step  # the policy forgets its task
    rewards = (draws.random((8, 8)) < chance).astype(float)
    groups = bt.Groups.from_dense(rewards, prompt_id=draws.choice(64, 8, replace=False))
    monitor.update(groups, step=step)
    if monitor.stop_requested:
        break

monitor.close()
print(f"stopped at step {step}, collapse rate {monitor.metrics()['buttress/acr']:.2f}")
