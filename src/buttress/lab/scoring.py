"""What a rollout of the laboratory earns: the verifier's word, or the policy's own certainty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from buttress.lab.decoder import Decoder
from buttress.lab.evaluation import Problems
from buttress.lab.rollout import Rollouts, token_logits
from buttress.remedies.internal import Intuitor, Rent

if TYPE_CHECKING:
    from buttress.lab.policy_training import Setting

Reward = Literal["verified", "intuitor", "rent"]


class Scorer:
    """Turns verdicts into the rewards that a run is trained on."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._noise = np.random.default_rng([setting.seed, 3])

    def __call__(
        self,
        decoder: Decoder,
        batch: Problems,
        rollouts: Rollouts,
        correct: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return rewards ``(prompt, rollout)``; with a plain setting these are the verdicts."""
        setting = self._setting
        reward = correct
        if setting.reward != "verified":
            with torch.no_grad():
                logits = token_logits(decoder, rollouts, batch.prompt.shape[1])
            internal = Intuitor() if setting.reward == "intuitor" else Rent()
            reward = (
                internal(logits, batch.written(rollouts.answer).flatten(0, 1).float())
                .double()
                .numpy()
            )
            reward = reward.reshape(correct.shape)
        if setting.flip:
            wrong = self._noise.random(reward.shape) < setting.flip
            reward = np.where(wrong, 1.0 - reward, reward)
        if setting.jitter:
            reward = reward + setting.jitter * self._noise.standard_normal(reward.shape)
        return reward
