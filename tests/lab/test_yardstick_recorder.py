"""Recording a training run: nothing is changed by it, and what is kept is what happened."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from tests.helpers import require

torch = require("torch")
pytestmark = pytest.mark.filterwarnings("ignore")

from buttress.lab.decoder import Decoder, Shape  # noqa: E402  after the skip
from buttress.lab.evaluation import Problems  # noqa: E402
from buttress.lab.policy_training import Setting, train_policy  # noqa: E402
from buttress.lab.starts import encoded  # noqa: E402
from buttress.lab.tasks import LatentSkill, vocabulary  # noqa: E402
from buttress.lab.yardstick.recorder import PLANS, Plan, record_run  # noqa: E402
from buttress.lab.yardstick.recording import names, verdicts  # noqa: E402
from buttress.remedies.losses import PpoClip  # noqa: E402

torch.set_num_threads(1)
TASK = LatentSkill(width=4)
SYMBOLS = vocabulary(TASK)


def start() -> Decoder:
    torch.manual_seed(0)
    return Decoder(Shape(len(SYMBOLS), width=32, heads=4, inner=48))


def problems(split: str, n: int):
    """Return problems of which only the first digit is asked: chance solves some."""
    whole = encoded(TASK, TASK.problems(n, split=split, seed=0))
    return Problems(whole.prompt, whole.answer[:, :1])


def recorded(plan: Plan):
    held_out = problems("held_out", 4)
    return record_run("run", plan, start(), problems("train", 16), held_out, SYMBOLS)


class TestRecorder:
    def test_training_is_as_without_it(self):
        plan = Plan("", steps=8, lr=1e-2, seed=4)
        one, decoder = recorded(plan)
        plain = start()
        setting = Setting(seed=4, lr=1e-2, warmup=2, steps=8, evaluate_every=10**6, tries=1)
        torch.manual_seed(4)
        history = train_policy(plain, problems("train", 16), problems("held_out", 4), setting)
        for ours, theirs in zip(decoder.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs)
        np.testing.assert_allclose(one.scalars["entropy"], history.steps["entropy"])
        # the texts are graded anew, and the verdicts are those of the trainer
        assert one.texts.shape == (64, 8)
        assert one.steps.tolist() == np.repeat(np.arange(1, 9), 8).tolist()
        right = verdicts(one.judge, one.texts, one.answers, one.ended).reshape(8, 64).mean(axis=1)
        assert 0 < right.mean() < 1
        np.testing.assert_allclose(right, history.steps["correct"])

    def test_the_gradient_is_that_before_clipping(self):
        plan = Plan("", steps=1, beta=0.5, lr=0.0)
        one, _ = recorded(plan)
        decoder = start()
        seen = []

        def note(weights, limit):
            seen.append(float(torch.cat([w.grad.flatten() for w in weights]).norm()))
            return seen[-1]

        setting = Setting(loss=PpoClip(beta=0.5), lr=0.0, steps=1, evaluate_every=10**6, tries=1)
        torch.manual_seed(0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.nn.utils, "clip_grad_norm_", note)
            train_policy(decoder, problems("train", 16), problems("held_out", 4), setting)
        assert one.scalars["grad_norm"][0] == pytest.approx(seen[0], rel=1e-4)
        assert one.scalars["kl"][0] == pytest.approx(0, abs=1e-6)

    def test_a_blind_run_is_kept_from_where_it_went_blind(self):
        plan = Plan("", steps=2, first=2, blind=True, beta=0.1, lr=1e-2)
        one, _ = recorded(plan)
        assert len(one.scalars["loss"]) == 2
        assert one.steps.tolist() == [1] * 8 + [2] * 8
        assert (one.scalars["kl"] > 0).all()
        assert (one.scalars["grad_norm"] > 0).all()

    def test_updates_of_one_batch_are_averaged(self):
        decoder = copy.deepcopy(start())
        plan = Plan("", steps=2, updates=4, lr=1e-3)
        one, _ = record_run(
            "run", plan, decoder, problems("train", 16), problems("held_out", 4), SYMBOLS
        )
        assert len(one.scalars["grad_norm"]) == 2
        assert len(one.texts) == 16


def test_every_plan_was_recorded():
    from buttress.lab.yardstick.trl_recorder import TRL_PLANS

    assert set(names()) == {*PLANS, *TRL_PLANS}
