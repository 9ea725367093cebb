"""One reinforcement learning run on a tiny decoder, readable from top to bottom.

The loop is that of TRL's GRPOTrainer with one update per batch: sample groups, score, advantages by
an estimator of `buttress.remedies`, a loss of `buttress.remedies.losses`, clip the gradient norm,
step. Where it differs from TRL: completions have a fixed width, so that nothing is padded; the
prompt of a group is computed once; and the run evaluates itself on held-out problems as it goes.

Like TRL, it steps the optimiser when all groups of a batch are tied: Adam's momentum moves the
weights on. Skipping that step is an experiment of its own (`skip_silent_steps`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from buttress.groups import Groups
from buttress.lab.decoder import Decoder
from buttress.lab.evaluation import Problems, evaluate
from buttress.lab.rollout import Rollouts, sample, token_logps
from buttress.measures import GroupSummary
from buttress.remedies import estimator
from buttress.remedies.losses import Loss, PpoClip

Control = Literal["none", "random_sign", "random_sign_tied", "grpo_norm"]


@dataclass(frozen=True)
class Setting:
    """Everything that decides a run besides its starting weights and its problems.

    Attributes
    ----------
    steps
        Budget of the run in batches of `prompts` groups: a method that draws more per update stops
        after fewer updates, so that all spend the same rollouts. `evaluate_every` counts alike.
    control
        ``random_sign`` gives each group's advantages a random sign, ``random_sign_tied`` those of
        tied groups only, ``grpo_norm`` scales the batch to the norm that GRPO's advantages have.
    resample
        Largest number of batches drawn until `prompts` groups are mixed; 1 draws once (GRPO).
    """

    method: str = "grpo"
    options: dict[str, Any] = field(default_factory=dict)
    loss: Loss = field(default_factory=PpoClip)
    steps: int = 300
    prompts: int = 8
    group: int = 8
    lr: float = 1e-4
    warmup: int = 20
    clip_norm: float = 1.0
    temperature: float = 1.0
    weight_decay: float = 0.0
    seed: int = 0
    control: Control = "none"
    resample: int = 1
    skip_silent_steps: bool = False
    evaluate_every: int = 50


@dataclass
class History:
    """What a run went through: columns with one entry per step, and the evaluations."""

    steps: dict[str, list[float]] = field(default_factory=dict)
    evaluations: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0

    def record(self, **values: float) -> None:
        """Append one step."""
        for name, value in values.items():
            self.steps.setdefault(name, []).append(float(value))


def train_policy(
    decoder: Decoder,
    problems: Problems,
    held_out: Problems,
    setting: Setting,
    *,
    on_step: Callable[[int, History], None] | None = None,
) -> History:
    """Train the decoder in place and return its history.

    The order of problems, the sampling noise and the evaluation noise depend on the seed only, so
    that methods of one seed are paired until their weights part.
    """
    start = time.perf_counter()
    history = History()
    estimate = estimator(setting.method, **setting.options)
    optimiser = torch.optim.AdamW(
        decoder.parameters(), lr=setting.lr, weight_decay=setting.weight_decay, fused=True
    )
    sampler = Sampler(decoder, problems, setting)
    per_step = setting.prompts * setting.group
    step = next_look = 0
    while sampler.spent < setting.steps * per_step:
        if sampler.spent >= next_look:
            history.evaluations.append(
                {"step": step, **evaluate(decoder, held_out, seed=next_look)}
            )
            next_look += setting.evaluate_every * per_step
        optimiser.param_groups[0]["lr"] = setting.lr * min(1.0, (step + 1) / (setting.warmup or 1))
        chosen, rollouts, reward = sampler.draw()
        logp, entropy = token_logps(
            decoder, rollouts, problems.prompt.shape[1], temperature=setting.temperature
        )
        groups = Groups.from_dense(
            reward,
            prompt_id=chosen,
            step=step,
            entropy=entropy.mean(-1).view(len(chosen), -1).numpy(),
            correct=reward,
        )
        tied = GroupSummary.of(groups).tied
        advantages = sampler.controlled(np.asarray(estimate(groups)), groups, tied)
        if advantages.any() or not setting.skip_silent_steps:
            loss = setting.loss(
                logp,
                None,
                torch.from_numpy(advantages).to(logp.dtype),
                torch.ones_like(logp),
                signal=torch.from_numpy(np.repeat(~tied, groups.sizes)),
                mastered=torch.from_numpy(np.repeat(reward.min(1) == 1, groups.sizes)),
            )
            loss.backward()
            torch.nn.utils.clip_grad_norm_(decoder.parameters(), setting.clip_norm)
            optimiser.step()
            optimiser.zero_grad()
        square = advantages.reshape(reward.shape) ** 2
        history.record(
            acr=tied.mean(),
            acr_after=(square.sum(1) == 0).mean(),
            reward=reward.mean(),
            entropy=entropy.mean().item(),
            norm=np.sqrt(square.mean()),
            tied_share=square[tied].sum() / max(square.sum(), 1e-300),
            rollouts=sampler.spent,
        )
        if on_step is not None:
            on_step(step, history)
        step += 1
    history.evaluations.append({"step": step, **evaluate(decoder, held_out, seed=next_look)})
    history.seconds = time.perf_counter() - start
    return history


class Sampler:
    """Draws the batches of a run: problems in shuffled epochs, completions, rewards."""

    def __init__(self, decoder: Decoder, problems: Problems, setting: Setting) -> None:
        self.decoder, self.problems, self.setting = decoder, problems, setting
        self.spent = 0  # rollouts so far
        self._shuffle = np.random.default_rng([setting.seed, 1])
        self._signs = np.random.default_rng([setting.seed, 2])
        self._noise = torch.Generator().manual_seed(setting.seed)
        self._queue: list[int] = []

    def draw(self) -> tuple[NDArray[np.int64], Rollouts, NDArray[np.float64]]:
        """Return the problems of a step, their rollouts, and rewards ``(prompt, rollout)``."""
        batches = [self._draw_once()]
        wanted = self.setting.prompts
        while len(batches) < self.setting.resample and _mixed(batches) < wanted:
            batches.append(self._draw_once())
        if len(batches) == 1:
            return batches[0]
        chosen = np.concatenate([batch[0] for batch in batches])
        row = torch.cat([batch[1].row for batch in batches])
        answer = torch.cat([batch[1].answer for batch in batches])
        reward = np.concatenate([batch[2] for batch in batches])
        # mixed groups first, in the order they came; tied ones only fill the batch up
        keep = np.argsort(reward.max(1) == reward.min(1), kind="stable")[:wanted]
        return chosen[keep], Rollouts(row[keep], answer[keep]), reward[keep]

    def controlled(
        self, advantages: NDArray[np.float64], groups: Groups, tied: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Apply the control of the setting to a step's advantages."""
        control = self.setting.control
        sign = np.where(self._signs.random(len(groups)) < 0.5, -1.0, 1.0)
        if control == "random_sign":
            return advantages * sign[groups.group_of]
        if control == "random_sign_tied":
            return advantages * np.where(tied, sign, 1.0)[groups.group_of]
        if control == "grpo_norm":
            wanted = np.linalg.norm(estimator("grpo")(groups))
            return advantages * (wanted / max(float(np.linalg.norm(advantages)), 1e-12))
        return advantages

    def _draw_once(self) -> tuple[NDArray[np.int64], Rollouts, NDArray[np.float64]]:
        setting = self.setting
        while len(self._queue) < setting.prompts:
            self._queue.extend(self._shuffle.permutation(len(self.problems)).tolist())
        chosen = np.array(self._queue[: setting.prompts])
        del self._queue[: setting.prompts]
        batch = self.problems.select(chosen)
        rollouts = sample(
            self.decoder,
            batch.prompt,
            setting.group,
            batch.answer.shape[1],
            generator=self._noise,
            temperature=setting.temperature,
        )
        self.spent += setting.prompts * setting.group
        return chosen, rollouts, verified(rollouts.answer, batch.answer)


def verified(sampled: Tensor, answer: Tensor) -> NDArray[np.float64]:
    """Return 1.0 where a completion is exactly the answer, else 0.0; ``(prompt, rollout)``."""
    return (sampled == answer.unsqueeze(1)).all(-1).double().numpy()


def _mixed(batches: list[tuple[NDArray[np.int64], Rollouts, NDArray[np.float64]]]) -> int:
    return sum(int((batch[2].max(1) != batch[2].min(1)).sum()) for batch in batches)
