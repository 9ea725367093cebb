"""From the rewards of a step to its advantages: the estimator, its columns, and the controls."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from buttress.groups import Groups
from buttress.lab.decoder import Decoder
from buttress.lab.evaluation import Problems
from buttress.lab.rollout import Rollouts, answer_logps, token_logps
from buttress.remedies import estimator
from buttress.remedies.token_credit import TokenColumns

if TYPE_CHECKING:
    from buttress.lab.policy_training import Setting

Control = Literal["none", "random_sign", "random_sign_tied", "grpo_norm"]


class Credit:
    """The remedy of a run, with what it has to be told of each step."""

    def __init__(self, decoder: Decoder, setting: Setting) -> None:
        self.estimate: Any = estimator(setting.method, **setting.options)
        self._decoder, self._setting = decoder, setting
        self._signs = np.random.default_rng([setting.seed, 2])
        self._columns = tuple(getattr(self.estimate, "needs", ()))
        self._columns += tuple(getattr(self.estimate, "takes", ()))
        wants_reference = "ref_logp" in self._columns or setting.loss.beta
        self.reference = copy.deepcopy(decoder).eval() if wants_reference else None

    def advantages(
        self,
        groups: Groups,
        tied: NDArray[np.bool_],
        batch: Problems,
        rollouts: Rollouts,
        logp: Tensor,
        entropy: Tensor,
    ) -> Tensor:
        """Return the advantages of a step, ``(rollout,)`` or ``(rollout, token)``."""
        if self._columns:
            tokens = self._token_columns(batch, rollouts, logp, entropy)
            found = np.asarray(self.estimate(groups, tokens))
        else:
            found = np.asarray(self.estimate(groups))
        return torch.from_numpy(self.controlled(found, groups, tied)).to(logp.dtype)

    def controlled(
        self, advantages: NDArray[np.float64], groups: Groups, tied: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Apply the control of the setting to a step's advantages."""
        control = self._setting.control
        sign = np.where(self._signs.random(len(groups)) < 0.5, -1.0, 1.0)
        if control == "random_sign":
            return (advantages.T * sign[groups.group_of]).T
        if control == "random_sign_tied":
            return (advantages.T * np.where(tied, sign, 1.0)[groups.group_of]).T
        if control == "grpo_norm":
            wanted = np.linalg.norm(estimator("grpo")(groups))
            return advantages * (wanted / max(float(np.linalg.norm(advantages)), 1e-12))
        return advantages

    def reference_logps(self, rollouts: Rollouts, width: int) -> Tensor | None:
        """Return the sampled tokens' log-probabilities under the starting policy, where needed."""
        if self.reference is None:
            return None
        with torch.no_grad():
            return token_logps(
                self.reference, rollouts, width, temperature=self._setting.temperature
            )[0]

    def _token_columns(
        self, batch: Problems, rollouts: Rollouts, logp: Tensor, entropy: Tensor
    ) -> TokenColumns:
        given: dict[str, Any] = {
            "mask": batch.written(rollouts.answer).flatten(0, 1).numpy(),
            "entropy": entropy.double().numpy(),
            "logp": logp.detach().double().numpy(),
        }
        if "ref_logp" in self._columns:
            reference = self.reference_logps(rollouts, batch.prompt.shape[1])
            assert reference is not None
            given["ref_logp"] = reference.double().numpy()
        if "belief" in self._columns:
            given["prior"], given["belief"] = beliefs(self._decoder, batch, rollouts)
        return TokenColumns(**given)


def beliefs(
    decoder: Decoder, batch: Problems, rollouts: Rollouts
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the policy's chance of the right answer, before the first token and after each.

    Shapes ``(rollout,)`` and ``(rollout, token)``. A completion here is its answer, so the belief
    after a prefix is the product of the chances of the right tokens that are still to come, and 0
    once a token was wrong: exactly the value of that prefix.
    """
    logps = answer_logps(decoder, batch.prompt, batch.answer)
    coming = logps.flip(-1).cumsum(-1).flip(-1)  # from each token to the end
    after = torch.cat([coming[:, 1:], torch.zeros_like(coming[:, :1])], dim=1)
    right = (rollouts.answer == batch.answer.unsqueeze(1)).cumprod(-1)
    belief = right * after.exp().unsqueeze(1)
    prior = coming[:, 0].exp().repeat_interleave(rollouts.answer.shape[1])
    return prior.double().numpy(), belief.flatten(0, 1).double().numpy()
