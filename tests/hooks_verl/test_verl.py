"""The verl plugin with the real verl: registries, advantages, losses, a Ray task."""

from __future__ import annotations

import numpy as np
import pytest

from buttress.errors import UsageError
from buttress.remedies.registry import names
from tests.helpers import require

pytestmark = [pytest.mark.verl, pytest.mark.filterwarnings("ignore")]

verl = require("verl")
torch = require("torch")
core = require("verl.trainer.ppo.core_algos")
omegaconf = require("omegaconf")

from buttress.hooks import verl as hook  # noqa: E402  needs verl


def rollouts(seed=0, prompts=6, size=4, width=5):
    rng = np.random.default_rng(seed)
    rewards = torch.zeros(prompts * size, width)
    lengths = rng.integers(1, width + 1, prompts * size)
    mask = (torch.arange(width)[None] < torch.as_tensor(lengths)[:, None]).float()
    scores = rng.integers(0, 2, prompts * size) * np.repeat(np.arange(prompts) > 0, size)
    rewards[torch.arange(len(rewards)), torch.as_tensor(lengths) - 1] = torch.as_tensor(
        scores, dtype=torch.float32
    )
    uid = np.repeat([f"uid-{place}" for place in range(prompts)], size).astype(object)
    shuffle = rng.permutation(len(uid))
    return rewards[shuffle], mask[shuffle], uid[shuffle]


def test_everything_is_registered_on_import():
    for name in names("advantage", "token"):
        assert f"buttress_{name}" in core.ADV_ESTIMATOR_REGISTRY
    for name in set(names("loss")) - set(hook.LEFT_OUT):
        assert f"buttress_{name}" in core.POLICY_LOSS_REGISTRY


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("grpo", lambda r, m, i: core.compute_grpo_outcome_advantage(r.clone(), m, i)),
        (
            "dr_grpo",
            lambda r, m, i: core.compute_grpo_outcome_advantage(
                r.clone(), m, i, norm_adv_by_std_in_grpo=False
            ),
        ),
        ("rloo", lambda r, m, i: core.compute_rloo_outcome_advantage(r.clone(), m, i)),
    ],
)
@pytest.mark.parametrize("seed", range(5))
def test_equals_verls_own(ours, theirs, seed):
    rewards, mask, uid = rollouts(seed)
    config = omegaconf.OmegaConf.create({"buttress": {"eps": 1e-6} if ours == "grpo" else {}})
    found, returns = core.get_adv_estimator_fn(f"buttress_{ours}")(
        token_level_rewards=rewards, response_mask=mask, index=uid, config=config
    )
    expected, _ = theirs(rewards, mask, uid)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert found is returns


def test_through_verls_compute_advantage_with_options():
    ray_trainer = require("verl.trainer.ppo.ray_trainer")
    protocol = require("verl.protocol")
    rewards, mask, uid = rollouts(1)
    data = protocol.DataProto.from_dict(
        tensors={"token_level_rewards": rewards, "response_mask": mask},
        non_tensors={"uid": uid},
    )
    config = omegaconf.OmegaConf.create({"buttress": {"threshold": "always", "only": "wrong"}})
    done = ray_trainer.compute_advantage(data, adv_estimator="buttress_avspo", config=config)
    advantages = done.batch["advantages"]
    dead = uid == "uid-0"
    assert (advantages[torch.as_tensor(dead)][mask[torch.as_tensor(dead)] > 0] < 0).all()
    assert (advantages[mask == 0] == 0).all()


def test_metrics_reach_verls_tracker():
    tracking = require("verl.utils.tracking")
    rewards, mask, uid = rollouts(2)
    core.get_adv_estimator_fn("buttress_grpo")(
        token_level_rewards=rewards, response_mask=mask, index=uid, config=None
    )
    written = []

    class Sink:
        def log(self, data, step, **_):
            written.append((step, dict(data)))

    tracker = tracking.Tracking.__new__(tracking.Tracking)
    tracker.logger = {"sink": Sink()}
    tracker.log({"loss": 1.0}, step=3)
    tracker.log({"loss": 2.0}, step=4)
    step, data = written[0]
    assert step == 3
    assert 0 < data["buttress/acr"] <= 1
    assert data["loss"] == 1.0
    assert "buttress/acr" not in written[1][1]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("cispo_verl", "cispo"), ("gspo", "gspo"), ("ppo_clip", "vanilla"), ("sapo", "sapo")],
)
def test_losses_equal_verls_own(ours, theirs):
    workers = require("verl.workers.config")
    config = workers.FSDPActorConfig(
        strategy="fsdp",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        clip_ratio_low=0.2,
        clip_ratio_high=0.3,
        clip_ratio_c=1e6,
        tau_pos=1.0,
        tau_neg=1.05,
    )
    torch.manual_seed(0)
    old = -torch.rand(6, 7) - 0.1
    logp = (old + 0.3 * torch.randn(6, 7)).requires_grad_()
    mask = (torch.arange(7)[None] < torch.tensor([7, 3, 5, 1, 7, 2])[:, None]).float()
    advantages = torch.randn(6, 1).expand(6, 7) * mask
    mode = "seq-mean-token-mean" if ours in ("gspo", "sapo") else "token-mean"
    found = []
    for name in (f"buttress_{ours}", theirs):
        value, metrics = core.get_policy_loss_fn(name)(
            old_log_prob=old,
            log_prob=logp,
            advantages=advantages,
            response_mask=mask,
            loss_agg_mode=mode,
            config=config,
            rollout_is_weights=None,
        )
        assert all(isinstance(one, float) for one in metrics.values())
        found.append((value.detach(), *torch.autograd.grad(value, logp)))
    for mine, other in zip(*found, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


def test_bad_options_and_missing_uid_are_named():
    rewards, mask, uid = rollouts()
    fn = core.get_adv_estimator_fn("buttress_avspo")
    config = omegaconf.OmegaConf.create({"buttress": {"treshold": 0.3}})
    with pytest.raises(UsageError, match="threshold"):
        fn(token_level_rewards=rewards, response_mask=mask, index=uid, config=config)
    with pytest.raises(UsageError, match="uid"):
        fn(token_level_rewards=rewards, response_mask=mask)


def test_token_credit_without_tokens_is_said_once(caplog):
    rewards, mask, uid = rollouts(4)
    found = {}
    for name in ("ep_grpo", "grpo", "ep_grpo"):
        config = omegaconf.OmegaConf.create({"buttress": {"eps": 1e-3}})
        fn = core.get_adv_estimator_fn(f"buttress_{name}")
        found[name], _ = fn(
            token_level_rewards=rewards, response_mask=mask, index=uid, config=config
        )
    torch.testing.assert_close(found["ep_grpo"], found["grpo"])
    told = [one.message for one in caplog.records if "works without" in one.message]
    assert len(told) == 1
    assert "token/entropy, token/logp, token/ref_logp" in told[0]


def test_registered_inside_a_ray_task():
    ray = require("ray")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:

        @ray.remote
        def advantages_in_a_worker(rewards, mask, uid):
            import verl.trainer.ppo.core_algos as core

            fn = core.get_adv_estimator_fn("buttress_rloo")
            found, _ = fn(token_level_rewards=rewards, response_mask=mask, index=uid, config=None)
            return found, "buttress_sapo" in core.POLICY_LOSS_REGISTRY

        rewards, mask, uid = rollouts(3)
        found, has_loss = ray.get(advantages_in_a_worker.remote(rewards, mask, uid))
    finally:
        ray.shutdown()
    expected, _ = core.compute_rloo_outcome_advantage(rewards.clone(), mask, uid)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert has_loss
