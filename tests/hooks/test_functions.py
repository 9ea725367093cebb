"""Plain functions for slime, SkyRL and rLLM, with objects of the shapes that these hand over."""

import functools
import importlib
import pickle
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import buttress as bt
from buttress.errors import UsageError
from buttress.hooks import functions
from buttress.remedies import registry
from tests.helpers import require

PER_TOKEN = {"edge_grpo", "ep_grpo", "grpo_vps", "rl_zvp"}
GIVES_ADVANTAGES = sorted(set(registry.names("advantage")) - PER_TOKEN)


# --- slime -------------------------------------------------------------------------------------


@dataclass
class Sample:
    """The fields of slime's Sample that matter here."""

    class Status(Enum):
        COMPLETED = "completed"
        TRUNCATED = "truncated"

    group_index: int | None
    reward: Any
    prompt: Any = "2+2="
    rollout_id: int | None = None
    response_length: int = 5
    status: Status = Status.COMPLETED

    def get_reward_value(self, args):
        return self.reward if not args.reward_key else self.reward[args.reward_key]


def arguments(**more):
    return SimpleNamespace(
        **{"reward_key": None, "advantage_estimator": "grpo", "normalize_advantages": False, **more}
    )


def test_slime_equals_its_own_normalisation():
    """What slime does where every group has n_samples_per_prompt samples."""
    draws = np.random.default_rng(0)
    rewards = draws.integers(0, 2, (6, 4)).astype(float)
    rewards[0] = 1
    samples = [Sample(g, r) for g, row in enumerate(rewards) for r in row]
    raw, got = functions.slime_reward_post_process("grpo", eps=1e-6)(arguments(), samples)
    assert raw == rewards.reshape(-1).tolist()
    std = rewards.std(axis=1, ddof=1, keepdims=True)
    expected = (rewards - rewards.mean(axis=1, keepdims=True)) / (std + 1e-6)
    assert got == pytest.approx(expected.reshape(-1))
    assert all(type(one) is float for one in got)
    assert got[:4] == [0, 0, 0, 0]


def test_slime_uneven_groups_in_any_order():
    samples = [Sample(g, r) for g, r in [(3, 1), (9, 0), (3, 0), (9, 0), (3, 0), (9, None)]]
    function = functions.slime_reward_post_process("dr_grpo")
    raw, got = function(arguments(), samples)
    assert raw == [1, 0, 0, 0, 0, None]
    assert got == pytest.approx([2 / 3, 0, -1 / 3, 0, -1 / 3, 0])
    assert function.live.metrics["buttress/acr"] == 0.5
    assert function.live.metrics["buttress/all_wrong"] == 0.5


def test_slime_counts_a_rollout_once():
    """One rollout was cut into three samples: its reward stands once in the mean."""
    samples = [Sample(0, 1.0, rollout_id=7) for _ in range(3)]
    samples += [Sample(0, 0.0, rollout_id=8), Sample(0, 0.0), Sample(0, 0.0)]
    _, got = functions.slime_reward_post_process("dr_grpo")(arguments(), samples)
    assert got == pytest.approx([0.75] * 3 + [-0.25] * 3)
    samples[1].reward = 0.5  # scored apart: two rollouts
    _, got = functions.slime_reward_post_process("dr_grpo")(arguments(), samples)
    assert got == pytest.approx([0.7, 0.2, 0.7] + [-0.3] * 3)


def test_slime_knows_prompts_lengths_and_components():
    seen = []
    function = functions.slime_reward_post_process("gdpo")
    estimate = function.live.estimate
    function.live.estimate = SpyOn(estimate, seen)
    chat = [{"role": "user", "content": "2+2="}]
    samples = [
        Sample(0, {"score": 1.0, "format": 0.0, "why": "ok"}, chat),
        Sample(0, {"score": 0.0, "format": 1.0}, chat, status=Sample.Status.TRUNCATED),
        Sample(1, {"score": 0.0, "format": True}),
        Sample(1, {"score": 0.0, "format": 0.0}),
    ]
    function(arguments(reward_key="score"), samples)
    [groups] = seen
    assert groups.prompt_id[0] == groups.prompt_id[1]  # the same text, as chat and as string
    assert groups.columns["truncated"].tolist() == [False, True, False, False]
    assert groups.columns["length"].tolist() == [5] * 4
    assert groups.columns["reward/format"].tolist() == [0, 1, 1, 0]
    assert set(groups.columns) >= {"reward/score"}
    assert "reward/why" not in groups.columns


class SpyOn:
    def __init__(self, estimate, seen):
        self._estimate, self._seen = estimate, seen

    def __call__(self, groups):
        self._seen.append(groups)
        return self._estimate(groups)

    def __getattr__(self, name):
        return getattr(self._estimate, name)


def test_slime_remembers_prompts_from_step_to_step():
    """spo's baseline is what the prompt did before: surprising failures count more."""
    function = functions.slime_reward_post_process("spo")
    for _ in range(5):
        function(arguments(), [Sample(0, 1.0, "easy"), Sample(1, 0.0, "hard")])
    _, got = function(arguments(), [Sample(0, 0.0, "easy"), Sample(1, 0.0, "hard")])
    assert got[0] < got[1]


def test_slime_warns_once_where_slime_would_change_the_result(caplog):
    function = functions.slime_reward_post_process("grpo")
    samples = [Sample(0, 1.0), Sample(0, 0.0)]
    for _ in range(2):
        function(
            arguments(advantage_estimator="reinforce_plus_plus", normalize_advantages=True), samples
        )
    told = [one.message for one in caplog.records if one.levelname == "WARNING"]
    assert len(told) == 2
    assert "--advantage-estimator" in told[0]
    assert "--normalize-advantages" in told[1]


def test_slime_says_what_is_wrong_with_samples():
    function = functions.slime_reward_post_process("grpo")
    with pytest.raises(UsageError, match="no group_index"):
        function(arguments(), [Sample(None, 1.0)])
    with pytest.raises(UsageError, match="--reward-key"):
        function(arguments(), [Sample(0, {"score": 1.0})])


@functools.cache
def load_function(path):
    """As slime finds a function by its path."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_slime_finds_a_function_by_its_path():
    function = load_function("buttress.hooks.functions.slime_avspo")
    _, got = function(arguments(), [Sample(0, 0.0) for _ in range(4)])
    assert all(one < 0 for one in got)
    assert functions.slime_avspo is function
    with pytest.raises(AttributeError, match="slime_avpso"):
        _ = functions.slime_avpso
    with pytest.raises(UsageError, match="needs token/entropy, token/logp, token/ref_logp"):
        _ = functions.slime_ep_grpo


# --- SkyRL -------------------------------------------------------------------------------------


def skyrl_call(function, rewards, index, lengths, width=5):
    """Call a function with the keywords of SkyRL's compute_advantages_and_returns."""
    torch = require("torch")
    mask = (torch.arange(width) < torch.tensor(lengths)[:, None]).long()
    token_level = torch.zeros(len(rewards), width)
    token_level[torch.arange(len(rewards)), torch.tensor(lengths) - 1] = torch.tensor(
        rewards, dtype=torch.float32
    )
    found = function(
        token_level_rewards=token_level,
        response_mask=mask,
        index=index,
        values=None,
        grpo_norm_by_std=True,
        gamma=1.0,
        lambd=1.0,
        config=SimpleNamespace(),
    )
    return found, mask


def test_skyrl_by_hand():
    torch = require("torch")
    function = functions.skyrl_estimator("grpo", eps=1e-6)
    rewards, index = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0], ["4", "7", "4", "7", "4", "4"]
    (advantages, returns), mask = skyrl_call(function, rewards, index, [5, 1, 2, 3, 4, 5])
    assert returns is advantages
    of_4 = torch.tensor([1.0, 0.0, 0.0, 1.0])
    expected = torch.zeros(6)
    expected[[0, 2, 4, 5]] = (of_4 - of_4.mean()) / (of_4.std() + 1e-6)
    torch.testing.assert_close(advantages, expected[:, None] * mask)
    assert (advantages[[1, 3]] == 0).all()
    assert function.live.metrics["buttress/acr"] == 0.5


def test_skyrl_knows_a_prompt_by_its_index():
    function = functions.skyrl_estimator("spo")
    for _ in range(5):
        skyrl_call(function, [1.0, 0.0], np.array(["0", "1"]), [2, 2])
    (got, _), _ = skyrl_call(function, [0.0, 0.0], np.array(["0", "1"]), [2, 2])
    assert got[0, 0] < got[1, 0]


# --- rLLM --------------------------------------------------------------------------------------


@dataclass
class Trajectory:
    task: Any
    lengths: list[int]
    steps: list[Any] = field(init=False)

    def __post_init__(self):
        self.steps = [SimpleNamespace(response_ids=[1] * length) for length in self.lengths]


def trajectory_groups(sizes, tasks):
    return [
        SimpleNamespace(trajectories=[Trajectory(task, [2, 3]) for _ in range(size)])
        for size, task in zip(sizes, tasks, strict=True)
    ]


def test_rllm_by_hand():
    rewards = [np.array([1.0, 0.0, 0.0, 1.0]), np.array([0.5, 0.5]), np.array([0.0, 1.0, 0.0])]
    function = functions.rllm_estimator("grpo", eps=1e-6, ddof=0)
    groups = trajectory_groups([4, 2, 3], [SimpleNamespace(instruction="a"), {"q": "b"}, None])
    got, returns = function(rewards=rewards, algorithm_config=None, traj_groups=groups)
    assert got is returns
    for mine, own in zip(got, rewards, strict=True):
        assert isinstance(mine, np.ndarray)
        assert mine == pytest.approx((own - own.mean()) / (own.std() + 1e-6))
    assert function.live.metrics["buttress/acr"] == pytest.approx(1 / 3)
    plain, _ = function(rewards, None)
    assert all((a == b).all() for a, b in zip(plain, got, strict=True))
    assert function([], None) == ([], [])


def test_rllm_knows_a_prompt_by_its_task():
    function = functions.rllm_estimator("spo")
    tasks = [SimpleNamespace(instruction="easy"), {"question": "hard"}]
    for _ in range(5):
        function(
            [np.array([1.0, 1.0]), np.array([0.0, 0.0])],
            None,
            traj_groups=trajectory_groups([2, 2], tasks),
        )
    got, _ = function(
        [np.array([0.0, 0.0]), np.array([0.0, 0.0])],
        None,
        traj_groups=trajectory_groups([2, 2], tasks),
    )
    assert got[0][0] < got[1][0]


# --- all of them -------------------------------------------------------------------------------

FACTORIES = [
    functions.slime_reward_post_process,
    functions.skyrl_estimator,
    functions.rllm_estimator,
]


@pytest.mark.parametrize("name", GIVES_ADVANTAGES)
def test_every_remedy_gives_what_it_gives_elsewhere(name):
    rewards, ids = [[1.0, 0.0, 0.0, 1.0], [0.0, 0.0], [1.0, 1.0, 1.0]], ["0", "1", "2"]
    flat = [one for row in rewards for one in row]
    rows = [g for g, row in zip(ids, rewards, strict=True) for _ in row]
    expected = bt.advantages(flat, rows, method=name, prompt_id=rows)
    samples = [Sample(int(g), r, prompt=g) for g, r in zip(rows, flat, strict=True)]
    _, slime = functions.slime_reward_post_process(name)(arguments(), samples)
    assert slime == pytest.approx(expected)
    tasks = [SimpleNamespace(instruction=one) for one in ids]
    rllm, _ = functions.rllm_estimator(name)(
        [np.array(row) for row in rewards], None, traj_groups=trajectory_groups([4, 2, 3], tasks)
    )
    assert np.concatenate(rllm) == pytest.approx(expected)
    (skyrl, _), mask = skyrl_call(functions.skyrl_estimator(name), flat, rows, [2] * 9)
    assert skyrl.numpy() == pytest.approx(expected[:, None] * mask.numpy(), abs=1e-5)


@pytest.mark.parametrize("factory", FACTORIES)
def test_wrong_names_and_options_fail_when_the_function_is_made(factory):
    with pytest.raises(UsageError, match="Did you mean 'avspo'"):
        factory("avpso")
    with pytest.raises(UsageError, match="Did you mean 'threshold'"):
        factory("avspo", treshold=0.3)
    for name in PER_TOKEN:
        with pytest.raises(UsageError, match="does not hand over"):
            factory(name)


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("name", ["avspo", "gdpo", "posterior"])
def test_a_copy_for_another_process_starts_afresh(factory, name):
    """SkyRL sends registered functions through Ray."""
    function = factory(name, eps=0.01) if name != "posterior" else factory(name)
    copy = pickle.loads(pickle.dumps(function))
    assert type(copy) is type(function)
    assert copy.live.estimate.state_dict() == function.live.estimate.state_dict()
    if name != "posterior":
        assert copy.live.estimate.eps == 0.01


def test_metrics_are_logged(caplog):
    caplog.set_level("INFO", logger="buttress.hooks")
    functions.rllm_estimator("grpo")([np.array([0.0, 0.0])], None)
    assert "grpo: buttress/acr 1" in caplog.text
