"""Monitors in verl: beside an estimator, and in the V1 trainers on a real TransferQueue."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from buttress.errors import UsageError
from tests.helpers import require

pytestmark = [pytest.mark.verl, pytest.mark.filterwarnings("ignore")]

verl = require("verl")
torch = require("torch")
core = require("verl.trainer.ppo.core_algos")
omegaconf = require("omegaconf")

from buttress.hooks import verl as hook  # noqa: E402  needs verl

# --- beside an estimator -------------------------------------------------------------------------


def estimated(config, rewards, name="grpo"):
    total = torch.tensor(rewards).reshape(-1, 1)
    uid = np.repeat(np.arange(len(rewards)), len(rewards[0])).astype(object)
    return core.get_adv_estimator_fn(f"buttress_{name}")(
        token_level_rewards=total,
        response_mask=torch.ones_like(total),
        index=uid,
        config=omegaconf.OmegaConf.create({"buttress": config}),
    )


def test_the_config_asks_for_a_monitor_and_its_numbers_are_logged(tmp_path):
    path = tmp_path / "run.jsonl"
    policies = [{"when": "acr > 0.4", "for_steps": 2, "then": {"switch": "dr_grpo"}}]
    config = {"monitor": {"jsonl": str(path), "policies": policies, "warmup": 0}}
    estimator = core.get_adv_estimator_fn("buttress_grpo")
    for _ in range(4):
        advantages, _ = estimated(config, [[1.0, 0.0], [1.0, 1.0]])
        assert hook.LAST_METRICS["buttress/acr_run"] == 0.5
    assert advantages[0].item() == pytest.approx(0.5)  # of dr_grpo
    monitor = estimator.live.monitor
    monitor.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert [event["action"] for event in lines[1]["events"]] == ["switch"]
    estimated({}, [[1.0, 0.0], [1.0, 1.0]])
    assert estimator.live.monitor is None


@pytest.mark.parametrize(
    ("monitor", "message"),
    [
        ({"windw": 3}, "Did you mean 'window'"),
        ({"policies": [{"when": "acr > 1", "then": {"temperature": 2}}]}, "does not let a hook"),
        (3, "true or a mapping"),
    ],
)
def test_wrong_settings_are_named(monitor, message):
    with pytest.raises(UsageError, match=message):
        estimated({"monitor": monitor}, [[1.0, 0.0]])


# --- the V1 trainers -----------------------------------------------------------------------------

tq = pytest.importorskip("transfer_queue", reason="V1 needs verl-core")
ray = require("ray")
verl_trainer = pytest.importorskip("buttress.hooks.verl.trainer")
base = pytest.importorskip("verl.trainer.ppo.v1.trainer_base")
verl_trainer.register()


@pytest.fixture(scope="module")
def queue():
    os.environ["RAY_AUTH_MODE"] = "disabled"
    ray.init(num_cpus=8, include_dashboard=False, ignore_reinit_error=True)
    tq.init()
    yield tq
    tq.close()
    ray.shutdown()


def config(tmp_path, estimator="grpo", monitor=True, **more):
    return omegaconf.OmegaConf.create(
        {
            "algorithm": {
                "adv_estimator": estimator,
                "use_kl_in_reward": False,
                "gamma": 1.0,
                "lam": 1.0,
                "buttress": {"monitor": monitor, **more},
            },
            "trainer": {
                "v1": {"trainer_mode": "buttress_sync"},
                "default_local_dir": str(tmp_path),
                "resume_mode": "auto",
            },
            "actor_rollout_ref": {"rollout": {"n": 2}},
        }
    )


class Plain(base.PPOTrainer):
    """verl's own trainer with everything that needs a GPU left out."""

    def __init__(self, config):
        self.config = config
        self.trainer_mode = config.trainer.v1.trainer_mode
        self.global_steps, self.total_training_steps = 1, 100
        self.complete = []

    def _save_checkpoint(self):
        place = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
        self.complete.append(sorted(one.name for one in place.iterdir()))

    def _load_checkpoint(self):
        self.global_steps = self.resumed_from

    resumed_from = 0


Plain.__abstractmethods__ = frozenset()
Trainer = type("Trainer", (verl_trainer.Monitored, Plain), {})
PROMPTS = ["1+1=", "2+2="]


def put(queue, rewards, step, outputs=1):
    """Put the rollouts of a step into the queue; the reward of a session is on its last token."""
    keys, fields = [], defaultdict(list)
    for at, row in enumerate(rewards):
        for session, reward in enumerate(row):
            for output in range(outputs):
                keys.append(f"u{step}{at}_{session}_{output}")
                length = 2 + session
                scores = torch.zeros(length)
                scores[-1] = reward
                fields["rm_scores"].append(scores)
                fields["response_mask"].append(torch.ones(length, dtype=torch.int64))
                fields["uid"].append(f"u{step}{at}")
                fields["raw_prompt"].append([{"role": "user", "content": PROMPTS[at]}])
                fields["extra_fields"].append({"reward_extra_info": {"acc": reward > 0.5}})
    nested = {
        name: torch.nested.as_nested_tensor(values, layout=torch.jagged)
        if isinstance(values[0], torch.Tensor)
        else np.array([*values, None], dtype=object)[:-1]
        for name, values in fields.items()
    }
    from verl.utils import tensordict_utils as tu

    return queue.kv_batch_put(keys=keys, partition_id="train", fields=tu.get_tensordict(nested))


def stepped(trainer, queue, rewards, **more):
    metrics = {}
    batch = put(queue, rewards, trainer.global_steps, **more)
    trainer._compute_advantage(batch, metrics)
    trainer.global_steps += 1
    return metrics


REWARDS = [[1.0, 0.0], [1.0, 1.0]]


def test_every_trainer_has_a_monitored_form_under_our_name():
    for mode in verl_trainer.MODES:
        kind = base.get_trainer_cls(f"buttress_{mode}")
        assert issubclass(kind, base.get_trainer_cls(mode))
        assert issubclass(kind, verl_trainer.Monitored)


def test_the_module_can_be_named_to_verl():
    code = (
        "from verl.trainer.ppo.v1 import get_trainer_cls\n"
        "print(get_trainer_cls('buttress_sync').__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"VERL_USE_EXTERNAL_MODULES": "buttress.hooks.verl.trainer"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.strip().endswith("MonitoredPPOTrainerSync"), done.stderr[-3000:]


@pytest.mark.parametrize("estimator", ["grpo", "buttress_grpo"])
def test_a_step_is_counted_with_prompts_verdicts_and_advantages(queue, tmp_path, estimator):
    trainer = Trainer(config(tmp_path, estimator))
    assert trainer.trainer_mode == "sync"
    metrics = stepped(trainer, queue, REWARDS)
    assert metrics["buttress/acr"] == 0.5
    assert metrics["buttress/acr/correct"] == 0.5
    assert metrics["buttress/acr_after"] == 0.5
    assert metrics["buttress/prompts"] == 2
    stepped(trainer, queue, REWARDS)
    monitor = trainer.buttress.monitor
    assert monitor.total_steps == 100
    assert monitor.last_step == 2
    table = monitor.prompts()
    assert table.tries.tolist() == [4, 4]
    assert sorted(table.successes.tolist()) == [2, 4]


def test_a_session_of_several_outputs_counts_once(queue, tmp_path):
    trainer = Trainer(config(tmp_path))
    stepped(trainer, queue, REWARDS, outputs=3)
    assert trainer.buttress.monitor.prompts().tries.tolist() == [2, 2]


def test_prompts_reach_remedies_that_remember_them(queue, tmp_path):
    trainer = Trainer(config(tmp_path, "buttress_spo"))
    for _ in range(3):
        stepped(trainer, queue, REWARDS)
    state = json.dumps(trainer.buttress.live.state()["estimator"])
    names = trainer.buttress.monitor.prompts().prompt_id.tolist()
    assert len(names) == 2
    assert all(name in state for name in names)


def test_the_state_is_saved_before_the_checkpoint_is_complete_and_resumed(queue, tmp_path):
    trainer = Trainer(config(tmp_path, "buttress_avspo"))
    for _ in range(3):
        stepped(trainer, queue, REWARDS)
    trainer.global_steps -= 1
    trainer._save_checkpoint()
    assert trainer.complete == [["buttress_state.json"]]
    resumed = Trainer(config(tmp_path, "buttress_avspo"))
    resumed.resumed_from = 3
    resumed._load_checkpoint()
    assert resumed.buttress.monitor.metrics()["buttress/acr_run"] == 0.5
    assert resumed.buttress.monitor.last_step == 3
    assert resumed.buttress.live.state()["estimator"] == trainer.buttress.live.state()["estimator"]


def test_policies_stop_the_run_and_switch_the_remedy(queue, tmp_path):
    policies = [
        {"when": "acr > 0.9", "for_steps": 1, "then": {"switch": "avspo", "options": ALWAYS}},
        {"when": "acr > 0.9", "for_steps": 2, "then": "stop", "name": "enough"},
    ]
    settings = {"policies": policies, "warmup": 0}
    trainer = Trainer(config(tmp_path, "buttress_grpo", settings))
    dead = [[0.0, 0.0], [0.0, 0.0]]
    after = [stepped(trainer, queue, dead)["buttress/acr_after"] for _ in range(2)]
    assert after == [1.0, 0.0]
    assert trainer.total_training_steps == 3
    with pytest.raises(UsageError, match="cannot be exchanged"):
        Trainer(config(tmp_path, "grpo", settings))


ALWAYS = {"threshold": "always"}


def test_a_queue_that_fails_is_one_warning(queue, tmp_path, monkeypatch, caplog):
    trainer = Trainer(config(tmp_path))
    monkeypatch.setattr(
        verl_trainer, "_fetch", lambda *_: (_ for _ in ()).throw(RuntimeError("queue down"))
    )
    for _ in range(2):
        assert "buttress/acr" not in stepped(trainer, queue, REWARDS)
    assert caplog.text.count("queue down") == 1


def test_fields_that_are_missing_are_unknown():
    batch = SimpleNamespace(keys=["a_0_0", "a_1_0"])
    assert verl_trainer._rows({}, "extra_fields", len(batch.keys)) == [None, None]
