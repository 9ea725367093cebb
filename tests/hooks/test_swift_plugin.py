"""The ms-swift plugin with stand-ins for the trainer; real runs are in tests/hooks_swift."""

import json
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import buttress as bt
from buttress.errors import UsageError
from buttress.hooks import swift_plugin
from buttress.hooks.swift_plugin.attachment import SwiftAttachment
from tests.helpers import require

torch = require("torch")
require("accelerate")


@dataclass
class Sample:
    """The fields of ms-swift's GRPOSample that matter here."""

    question: str = "2+2="
    prompt_id: str = "p"
    request_id: str = "r"
    response_token_ids: list[Any] = field(default_factory=lambda: [5, 6, 7])
    images: list[Any] = field(default_factory=list)
    is_truncated: bool = False

    @property
    def messages(self):
        user = {"role": "user", "content": self.question}
        return [user, {"role": "assistant", "content": "4"}]


def trainer(**more):
    return SimpleNamespace(
        **{
            "reward_func_names": ["right", "format"],
            "reward_weights": torch.tensor([1.0, 0.5]),
            "accelerator": SimpleNamespace(is_main_process=True),
            "advantage_estimator": "grpo",
            "scale_rewards": "group",
            "kl_in_reward": False,
            "dynamic_num_samples": False,
            "num_generations": 2,
            "model": SimpleNamespace(training=True),
            "_metrics": {"train": defaultdict(list)},
            "args": SimpleNamespace(should_save=True),
            **more,
        }
    )


def replaced(remedy, matrix, samples=None, settings=None, **options):
    one = trainer(**(settings or {}))
    attachment = SwiftAttachment(one, remedy, options)
    matrix = torch.tensor(matrix, dtype=torch.float32)
    theirs = torch.full((len(matrix),), 7.0)
    samples = samples or [Sample() for _ in matrix]
    return attachment.replace(one, samples, matrix, theirs), one, attachment


nan = float("nan")


def test_weights_and_missing_rewards():
    matrix = [[1, 0], [0, 1], [nan, 1], [0, nan], [nan, nan], [1, 1]]
    got, one, _ = replaced("dr_grpo", matrix)
    # totals 1, 0.5 | 0.5, 0 | unscorable, 1.5
    assert got.tolist() == pytest.approx([0.25, -0.25, 0.25, -0.25, 0, 0])
    assert one._metrics["train"]["buttress/fallback"] == [0]
    assert one._metrics["train"]["buttress/acr"] == [0]


def test_evaluation_is_left_alone():
    settings = {"model": SimpleNamespace(training=False)}
    got, one, _ = replaced("dr_grpo", [[1, 0], [0, 0]], settings=settings)
    assert got.tolist() == [7, 7]
    assert not one._metrics["train"]


def test_a_fault_falls_back_and_is_said_once(caplog):
    one = trainer()
    attachment = SwiftAttachment(one, "grpo", {})
    attachment.live.estimate = None
    matrix = torch.zeros(2, 2)
    for _ in range(2):
        theirs = torch.tensor([0.5, -0.5])
        got = attachment.replace(one, [Sample(), Sample()], matrix, theirs)
        assert got is theirs
    assert one._metrics["train"] == {"buttress/fallback": [1, 1]}
    assert caplog.text.count("ms-swift's own advantages are used") == 1


def test_what_is_unknown_is_not_averaged():
    """No group can be scored: ms-swift would take the mean of NaN."""
    _, one, _ = replaced("grpo", [[nan, nan], [nan, nan]])
    assert "buttress/acr" not in one._metrics["train"]


def test_conversations_of_several_samples_count_once():
    """Two prompts; request a of the first was cut into three samples."""
    requests = ["a", "a", "b", "a", "c", "d"]
    prompts = ["p", "p", "p", "p", "q", "q"]
    samples = [Sample(prompt_id=p, request_id=r) for p, r in zip(prompts, requests, strict=True)]
    matrix = [[1, 0], [1, 0], [0, 0], [1, 0], [0, 0], [0, 0]]
    got, one, _ = replaced("dr_grpo", matrix, samples, {"dynamic_num_samples": True})
    assert got.tolist() == pytest.approx([0.5, 0.5, -0.5, 0.5, 0, 0])
    assert one._metrics["train"]["buttress/acr"] == [0.5]


def test_prompts_lengths_and_truncation_are_known():
    seen = []
    one = trainer()
    attachment = SwiftAttachment(one, "spo", {})
    plain = attachment.live.estimate

    def spy(groups):
        seen.append(groups)
        return plain(groups)

    spy.reading, spy.tolerance = {"acr_after": 0.0}, plain.tolerance
    attachment.live.estimate = spy
    samples = [
        Sample("a", response_token_ids=[[1, 2], [3]]),
        Sample("a", is_truncated=True),
        Sample("b"),
        Sample("c"),  # a group that mixes prompts has none
        Sample("d", images=["x"]),
        Sample("d", images=["y"]),
    ]
    attachment.replace(one, samples, torch.zeros(6, 2), torch.zeros(6))
    [groups] = seen
    known = [label is not None for label in groups.prompt_id]
    assert known == [True, False, False]
    assert groups.columns["length"].tolist() == [3] * 6
    assert groups.columns["truncated"].tolist() == [False, True, False, False, False, False]
    assert {"reward/right", "reward/format"} <= set(groups.columns)


def test_gdpo_takes_the_weights_of_the_trainer():
    matrix = np.array([[1, 0], [0, 0], [1, 1], [0, 1]], dtype=float)
    got, _, attachment = replaced("gdpo", matrix.tolist())
    assert attachment.live.estimate.weights == {"right": 1.0, "format": 0.5}
    columns = {"reward/right": matrix[:, 0], "reward/format": matrix[:, 1]}
    groups = bt.Groups.from_flat(matrix @ [1, 0.5], [0, 0, 1, 1], **columns)
    expected = bt.estimator("gdpo", weights={"right": 1.0, "format": 0.5})(groups)
    assert got.numpy() == pytest.approx(expected, abs=1e-6)


def test_state_goes_with_the_checkpoint(tmp_path):
    one = trainer(_get_output_dir=lambda trial: str(tmp_path), state=SimpleNamespace(global_step=5))
    attachment = SwiftAttachment(one, "posterior", {})
    attachment.replace(one, [Sample(), Sample()], torch.eye(2), torch.zeros(2))
    attachment.save(one, None)
    twin = SwiftAttachment(one, "posterior", {})
    twin.load(one, None)
    assert twin.live.estimate.state_dict() != attachment.live.estimate.state_dict()
    twin.load(one, str(tmp_path / "checkpoint-5"))
    state = json.dumps(twin.live.estimate.state_dict())
    assert state == json.dumps(attachment.live.estimate.state_dict())


def test_a_checkpoint_without_a_state_starts_afresh(tmp_path, caplog):
    attachment = SwiftAttachment(trainer(), "posterior", {})
    attachment.load(trainer(), str(tmp_path))
    assert "the remedy starts afresh" in caplog.text


@pytest.mark.parametrize(
    ("remedy", "settings", "said"),
    [
        ("grpo", {"scale_rewards": "batch"}, "scale_rewards='batch' would have no effect"),
        ("grpo", {"advantage_estimator": "rloo"}, "advantage_estimator='rloo'"),
        ("grpo", {"kl_in_reward": True}, "kl_in_reward=True"),
        ("ep_grpo", {}, "needs token/entropy, token/logp, token/ref_logp of each rollout"),
        ("edge_grpo", {}, "which ms-swift does not hand over"),
    ],
)
def test_settings_that_do_not_fit(remedy, settings, said):
    with pytest.raises(UsageError, match=said):
        SwiftAttachment(trainer(**settings), remedy, {})


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"BUTTRESS_REMEDY": "avpso"}, "Did you mean 'avspo'"),
        ({"BUTTRESS_OPTIONS": "{threshold: 1}"}, "BUTTRESS_OPTIONS is no JSON"),
        ({"BUTTRESS_OPTIONS": "[1]"}, "must be an object"),
        ({"BUTTRESS_OPTIONS": '{"treshold": 1}'}, "Did you mean 'threshold'"),
    ],
)
def test_a_wrong_environment_is_named(environment, said):
    with pytest.raises(UsageError, match=said):
        swift_plugin.choice(environment)


def test_the_plugin_file_shadows_nothing():
    """ms-swift puts the folder of a plugin in front of the import path."""
    done = subprocess.run(
        [sys.executable, "-m", "buttress.hooks.swift_plugin"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(swift_plugin.PLUGIN)
    assert swift_plugin.PLUGIN.is_file()
    beside = {one.stem for one in swift_plugin.PLUGIN.parent.glob("*.py")}
    assert beside == {"__init__", "__main__", "attachment", "buttress_for_swift"}


# --- monitors ------------------------------------------------------------------------------------


def watched(watching, remedy="grpo", **more):
    callbacks = []
    one = trainer(
        add_callback=callbacks.append, state=SimpleNamespace(global_step=0, max_steps=9), **more
    )
    return one, SwiftAttachment(one, remedy, {}, watching), callbacks


def step_with(one, attachment, matrix):
    matrix = torch.tensor(matrix, dtype=torch.float32)
    samples = [Sample(question=f"{row // 2}=") for row in range(len(matrix))]
    got = attachment.replace(one, samples, matrix, torch.full((len(matrix),), 7.0))
    one.state.global_step += 1
    return got


DEAD = [[0.0, 0.0]] * 4


def test_a_monitor_counts_and_its_numbers_are_logged():
    one, attachment, _ = watched(True)
    for _ in range(3):
        step_with(one, attachment, [*DEAD[:2], [1, 0], [0, 0]])
    monitor = attachment.live.monitor
    assert monitor.last_step == 3
    assert monitor.total_steps == 9
    assert one._metrics["train"]["buttress/acr_run"] == [0.5] * 3
    assert one._metrics["train"]["buttress/prompts"] == [2] * 3


def test_a_monitor_stops_the_run_and_switches_the_remedy():
    pytest.importorskip("transformers")
    policies = [
        {"when": "acr > 0.9", "for_steps": 1, "then": {"switch": "avspo", "options": ALWAYS}},
        {"when": "acr > 0.9", "for_steps": 3, "then": "stop", "name": "enough"},
    ]
    one, attachment, callbacks = watched({"policies": policies, "warmup": 0})
    control = SimpleNamespace(should_save=False, should_training_stop=False)
    moved, ended = [], []
    for _ in range(3):
        moved.append(bool(step_with(one, attachment, DEAD).any()))
        callbacks[0].on_step_end(None, None, control)
        ended.append((control.should_save, control.should_training_stop))
    assert moved == [False, True, True]
    assert ended == [(False, False), (False, False), (True, True)]


ALWAYS = {"threshold": "always"}


def test_the_state_of_a_monitor_is_saved_and_resumed(tmp_path):
    policy = {"when": "acr > 0.9", "for_steps": 1, "then": {"switch": "avspo", "options": ALWAYS}}
    settings = {"policies": [policy], "warmup": 0}
    one, attachment, _ = watched(settings)
    one._get_output_dir = lambda trial: str(tmp_path)
    for _ in range(2):
        step_with(one, attachment, DEAD)
    attachment.save(one, None)
    other, resumed, _ = watched(settings)
    resumed.load(other, str(tmp_path / "checkpoint-2"))
    assert resumed.live.monitor.metrics()["buttress/acr_run"] == 1.0
    assert resumed.live.monitor.last_step == 2
    assert step_with(other, resumed, DEAD).any()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "BUTTRESS_MONITOR is no JSON"),
        ("3", "true or a mapping of settings"),
        ('{"windw": 20}', "Did you mean 'window'"),
        ('{"policies": "acr > 1"}', "policies must be a list"),
        ('{"policies": [{"then": "stop"}]}', "at least 'when'"),
        ('{"policies": [{"when": "acr > 1", "thn": "stop"}]}', "Did you mean 'then'"),
        ('{"policies": [{"when": "acr > 1", "then": {"swich": "x"}}]}', "temperature= or top_p="),
        ('{"policies": [{"when": "acr > 1", "then": {"temperature": 2}}]}', "does not let a hook"),
        ('{"policies": [{"when": "acr > 1", "then": {"switch": "rent"}}]}', "is a reward remedy"),
    ],
)
def test_wrong_settings_of_a_monitor_fail_at_the_start(text, message):
    with pytest.raises(UsageError, match=message):
        watched(swift_plugin.watching({"BUTTRESS_MONITOR": text}))


def test_only_the_main_process_reports(tmp_path):
    path = tmp_path / "run.jsonl"
    other = SimpleNamespace(is_main_process=False)
    _, attachment, _ = watched({"jsonl": str(path)}, accelerator=other)
    assert not path.exists()
    assert attachment.live.monitor is not None
