"""Draws the batches of a run: problems, completions, verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from buttress.lab.decoder import Decoder
from buttress.lab.evaluation import Problems
from buttress.lab.rollout import Rollouts, sample

if TYPE_CHECKING:
    from buttress.lab.policy_training import Setting

Drawn = tuple[NDArray[np.int64], Rollouts, NDArray[np.float64]]


class Sampler:
    """Draws the batches of a run: problems in shuffled epochs, completions, rewards."""

    def __init__(self, decoder: Decoder, problems: Problems, setting: Setting) -> None:
        self.decoder, self.problems, self.setting = decoder, problems, setting
        self.spent = 0  # rollouts so far
        self.acr = float("nan")  # of the groups last drawn, kept or not
        self._shuffle = np.random.default_rng([setting.seed, 1])
        self._noise = torch.Generator().manual_seed(setting.seed)
        self._queue: list[int] = []

    def draw(self) -> Drawn:
        """Return the problems of a step, their rollouts, and verdicts ``(prompt, rollout)``."""
        batches = [self._draw_once()]
        wanted = self.setting.prompts
        while len(batches) < self.setting.resample and _mixed(batches) < wanted:
            batches.append(self._draw_once())
        drawn = sum(len(batch[0]) for batch in batches)
        self.acr = 1 - _mixed(batches) / drawn
        if len(batches) == 1:
            return batches[0]
        chosen = np.concatenate([batch[0] for batch in batches])
        row = torch.cat([batch[1].row for batch in batches])
        answer = torch.cat([batch[1].answer for batch in batches])
        correct = np.concatenate([batch[2] for batch in batches])
        # mixed groups first, in the order they came; tied ones only fill the batch up
        keep = np.argsort(correct.max(1) == correct.min(1), kind="stable")[:wanted]
        return chosen[keep], Rollouts(row[keep], answer[keep]), correct[keep]

    def _draw_once(self) -> Drawn:
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
        return chosen, rollouts, batch.right(rollouts.answer).double().numpy()


def _mixed(batches: list[Drawn]) -> int:
    return sum(int((batch[2].max(1) != batch[2].min(1)).sum()) for batch in batches)
