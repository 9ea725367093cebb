"""One reinforcement learning run on a tiny decoder, readable from top to bottom.

The loop is that of TRL's GRPOTrainer: sample groups, score, advantages by an estimator of
`buttress.remedies`, a loss of `buttress.remedies.losses`, clip the gradient norm, step. Where it
differs from TRL: completions have a fixed width, so that nothing is padded; the prompt of a group
is computed once; and the run evaluates itself on held-out problems as it goes.

Like TRL, it steps the optimiser when all groups of a batch are tied: Adam's momentum moves the
weights on. Skipping that step is an experiment of its own (`skip_silent_steps`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from buttress.groups import Groups
from buttress.lab.credit import Control, Credit
from buttress.lab.decoder import Decoder
from buttress.lab.evaluation import Problems, evaluate
from buttress.lab.rollout import Rollouts, token_logps
from buttress.lab.sampler import Sampler
from buttress.lab.scoring import Reward, Scorer
from buttress.measures import GroupSummary
from buttress.remedies.losses import Loss, PpoClip


@dataclass(frozen=True)
class Setting:
    """Everything that decides a run besides its starting weights and its problems.

    Attributes
    ----------
    method, options, loss
        Names and options of `buttress.remedies`.
    reward
        ``verified``, or an internal reward, which never sees the answers.
    flip, jitter
        A noisy verifier: the chance that a verdict is turned, and the deviation of what is added.
    steps
        Budget of the run in batches of `prompts` groups: a method that draws more per update stops
        after fewer updates, so that all spend the same rollouts. `evaluate_every` counts alike.
    updates
        Optimiser steps per batch, each on its share of the prompts; 1 is on-policy.
    control
        ``random_sign`` gives each group's advantages a random sign, ``random_sign_tied`` those of
        tied groups only, ``grpo_norm`` scales the batch to the norm that GRPO's advantages have.
    resample
        Largest number of batches drawn until `prompts` groups are mixed; 1 draws once (GRPO).
    bf16
        Whether to compute in bfloat16 (weights and optimiser stay in single precision).
    tries
        Samples per held-out problem, the largest k of pass@k.
    """

    method: str = "grpo"
    options: dict[str, Any] = field(default_factory=dict)
    loss: Loss = field(default_factory=PpoClip)
    reward: Reward = "verified"
    flip: float = 0.0
    jitter: float = 0.0
    steps: int = 300
    prompts: int = 8
    group: int = 8
    updates: int = 1
    lr: float = 1e-4
    warmup: int = 20
    clip_norm: float = 1.0
    temperature: float = 1.0
    weight_decay: float = 0.0
    seed: int = 0
    control: Control = "none"
    resample: int = 1
    skip_silent_steps: bool = False
    bf16: bool = False
    evaluate_every: int = 50
    tries: int = 16


@dataclass
class History:
    """What a run went through: columns with one entry per step, and the evaluations."""

    steps: dict[str, list[float]] = field(default_factory=dict)
    evaluations: list[dict[str, float]] = field(default_factory=list)
    visits: dict[int, list[float]] = field(default_factory=dict)  # success per visit of a prompt
    seconds: float = 0.0

    def record(self, **values: float) -> None:
        """Append one step."""
        for name, value in values.items():
            self.steps.setdefault(name, []).append(float(value))

    def visit(self, prompts: NDArray[np.int64], success: NDArray[np.float64]) -> None:
        """Append the success rates of the groups of a step."""
        for prompt, rate in zip(prompts.tolist(), success.tolist(), strict=True):
            self.visits.setdefault(prompt, []).append(rate)

    def forgotten(self) -> float:
        """Return the share of failures on the visit after a prompt was wholly solved; or NaN."""
        after = [
            1.0 - now
            for rates in self.visits.values()
            for before, now in pairwise(rates)
            if before == 1.0
        ]
        return float(np.mean(after)) if after else float("nan")

    def look(
        self, step: int, decoder: Decoder, held_out: Problems, *, seed: int, tries: int
    ) -> None:
        """Evaluate the policy and append what came of it."""
        found = evaluate(decoder, held_out, seed=seed, tries=tries)
        self.evaluations.append({"step": step, **found})


def train_policy(
    decoder: Decoder,
    problems: Problems,
    held_out: Problems,
    setting: Setting,
    *,
    on_step: Callable[[int, History], None] | None = None,
) -> History:
    """Train the decoder in place and return its history.

    Weights that need no gradient stay as they are. The order of problems, the sampling noise and
    the evaluation noise depend on the seed only, so that methods of one seed are paired until their
    weights part.
    """
    with torch.autocast("cpu", torch.bfloat16, enabled=setting.bf16):
        return _train(decoder, problems, held_out, setting, on_step)


def _train(
    decoder: Decoder,
    problems: Problems,
    held_out: Problems,
    setting: Setting,
    on_step: Callable[[int, History], None] | None,
) -> History:
    start = time.perf_counter()
    history = History()
    credit, scorer = Credit(decoder, setting), Scorer(setting)
    weights = [weight for weight in decoder.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(
        weights, lr=setting.lr, weight_decay=setting.weight_decay, fused=True
    )
    sampler = Sampler(decoder, problems, setting)
    per_step, width = setting.prompts * setting.group, problems.prompt.shape[1]
    step = next_look = 0
    while sampler.spent < setting.steps * per_step:
        if sampler.spent >= next_look:
            history.look(step, decoder, held_out, seed=next_look, tries=setting.tries)
            next_look += setting.evaluate_every * per_step
        optimiser.param_groups[0]["lr"] = setting.lr * min(1.0, (step + 1) / (setting.warmup or 1))
        chosen, rollouts, correct = sampler.draw()
        batch = problems.select(chosen)
        reward = scorer(decoder, batch, rollouts, correct)
        with torch.set_grad_enabled(setting.updates == 1):
            logp, entropy = token_logps(decoder, rollouts, width, temperature=setting.temperature)
        mask = batch.written(rollouts.answer).flatten(0, 1)
        entropy_of = (entropy * mask).sum(-1) / mask.sum(-1)
        groups = Groups.from_dense(
            reward,
            prompt_id=chosen,
            step=step,
            entropy=entropy_of.view(len(chosen), -1).numpy(),
            correct=correct,
        )
        history.visit(chosen, correct.mean(1))
        tied = GroupSummary.of(groups).tied
        advantages = credit.advantages(groups, tied, batch, rollouts, logp, entropy)
        if advantages.any() or not setting.skip_silent_steps:
            update = Update(
                rollouts, logp, advantages, mask, tied, correct.min(1) == 1,
                credit.reference_logps(rollouts, width),
            )  # fmt: skip
            for share in update.shares(setting.updates):
                share.loss(decoder, setting, width).backward()
                torch.nn.utils.clip_grad_norm_(weights, setting.clip_norm)
                optimiser.step()
                torch.clear_autocast_cache()  # it holds the weights of before
                optimiser.zero_grad()
        square = advantages.double().numpy().reshape(len(tied), -1) ** 2
        history.record(
            acr_drawn=sampler.acr,
            acr=tied.mean(),
            acr_after=(square.sum(1) == 0).mean(),
            reward=reward.mean(),
            correct=correct.mean(),
            entropy=entropy_of.mean().item(),
            norm=np.sqrt(square.mean()),
            tied_share=square[tied].sum() / max(square.sum(), 1e-300),
            rollouts=sampler.spent,
        )
        if on_step is not None:
            on_step(step, history)
        step += 1
    history.look(step, decoder, held_out, seed=next_look, tries=setting.tries)
    history.seconds = time.perf_counter() - start
    return history


@dataclass(frozen=True)
class Update:
    """What the optimiser steps of one batch need; groups stand one after the other."""

    rollouts: Rollouts
    logp: Tensor  # (rollout, token), with a gradient if the batch is one update
    advantages: Tensor  # (rollout,) or (rollout, token)
    mask: Tensor  # (rollout, token), what counts of it
    tied: NDArray[np.bool_]  # (prompt,)
    mastered: NDArray[np.bool_]  # (prompt,)
    ref_logp: Tensor | None = None

    def shares(self, n: int) -> list[Update]:
        """Return the batch in n parts of whole groups."""
        if n == 1:
            return [self]
        prompts, group = self.rollouts.answer.shape[:2]
        parts = []
        for part in np.array_split(np.arange(prompts), n):
            own = slice(int(part[0]), int(part[-1]) + 1)
            flat = slice(own.start * group, own.stop * group)
            parts.append(
                Update(
                    self.rollouts.select(own),
                    self.logp[flat],
                    self.advantages[flat],
                    self.mask[flat],
                    self.tied[own],
                    self.mastered[own],
                    None if self.ref_logp is None else self.ref_logp[flat],
                )
            )
        return parts

    def loss(self, decoder: Decoder, setting: Setting, width: int) -> Tensor:
        """Return the loss; where the logps carry no gradient they are those of the old policy."""
        logp, old = self.logp, None
        if not logp.requires_grad:
            old = logp
            logp = token_logps(decoder, self.rollouts, width, temperature=setting.temperature)[0]
        group = self.rollouts.answer.shape[1]
        return setting.loss(
            logp,
            old,
            self.advantages,
            self.mask.to(logp.dtype),
            ref_logp=self.ref_logp,
            signal=torch.from_numpy(np.repeat(~self.tied, group)),
            mastered=torch.from_numpy(np.repeat(self.mastered, group)),
        )
