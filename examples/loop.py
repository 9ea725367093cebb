"""A training loop of one's own: a softmax policy over answers, learning with a remedy."""

import numpy as np

import buttress as bt

draws = np.random.default_rng(0)
prompts, answers, group = 64, 6, 8
logits = np.zeros((prompts, answers))  # answer 0 is right
estimate = bt.estimator("posterior")

for step in range(400):
    chosen = draws.choice(prompts, 8, replace=False)
    chances = np.exp(logits[chosen])
    chances /= chances.sum(-1, keepdims=True)
    sampled = np.array([draws.choice(answers, group, p=row) for row in chances])
    groups = bt.Groups.from_dense((sampled == 0).astype(float), prompt_id=chosen, step=step)
    advantages = estimate(groups).reshape(len(chosen), group)
    for row, prompt in enumerate(chosen):
        for answer, advantage in zip(sampled[row], advantages[row], strict=True):
            logits[prompt] -= 0.1 * advantage * chances[row]
            logits[prompt, answer] += 0.1 * advantage

success = np.exp(logits[:, 0]) / np.exp(logits).sum(-1)
print(f"success rate {success.mean():.2f}, last collapse rate {bt.collapse_rate(groups):.2f}")
print(estimate.reading)
