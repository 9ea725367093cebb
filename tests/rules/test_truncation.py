import numpy as np
import pytest

from buttress.groups import Groups, Run
from buttress.rules import Severity
from tests.rules.runs import binary, names, of, scalar, scalars, steps_of, the

RULE = "truncation-collapse"


def groups_of(n_cut: int, n_wrong: int, n_mixed: int, size: int = 8) -> Groups:
    """Build groups that are cut off, wrong though complete, and mixed."""
    mixed = np.tile([0.0, 1.0], size // 2)
    rewards = np.array([np.zeros(size)] * (n_cut + n_wrong) + [mixed] * n_mixed)
    truncated = np.zeros(rewards.shape, dtype=bool)
    truncated[:n_cut] = True
    return Groups.from_dense(rewards, truncated=truncated)


def test_comes_first_and_silences_the_other_cure():
    found = names(groups_of(8, 0, 0))
    assert found[:2] == [RULE, "advantage-collapse"]
    assert "all-wrong-collapse" not in found
    assert the(groups_of(8, 0, 0), RULE).severity is Severity.ERROR


def test_names_the_share():
    found = the(groups_of(5, 3, 0), RULE)
    assert "5 of 8 tied groups" in found.message
    assert found.evidence["share_of_tied"] == pytest.approx(5 / 8)


def test_advice_is_the_cap_and_nothing_else():
    for run in (groups_of(8, 0, 0), groups_of(5, 3, 0)):
        for name in (RULE, "advantage-collapse"):
            text = str(the(run, name).advice)
            assert "max_completion_length" in text.split("Advice")[1]
            assert "easier" not in text
            assert "larger group" not in text
            assert "rollouts per prompt" not in text


def test_a_minor_part_is_a_warning_and_leaves_the_kind():
    run = groups_of(3, 7, 0)
    assert the(run, RULE).severity is Severity.WARNING
    assert "all-wrong-collapse" in names(run)


@pytest.mark.parametrize("run", [groups_of(0, 8, 0), groups_of(1, 3, 30), groups_of(1, 9, 0)])
def test_silent_where_truncation_is_marginal(run):
    assert RULE not in names(run)


def test_seven_of_eight_are_nearly_all_and_half_is_not():
    truncated = np.ones((8, 8), dtype=bool)
    truncated[:, 0] = False
    assert RULE in names(Groups.from_dense(np.zeros((8, 8)), truncated=truncated))
    truncated[:, :4] = False
    assert RULE not in names(Groups.from_dense(np.zeros((8, 8)), truncated=truncated))


def test_unknown_truncation_is_not_no_truncation():
    truncated = np.where(np.arange(8) < 2, np.nan, 1.0) * np.ones((8, 1))
    assert RULE in names(Groups.from_dense(np.zeros((8, 8)), truncated=truncated))
    unknown = np.full((8, 8), np.nan)
    assert RULE not in names(Groups.from_dense(np.zeros((8, 8)), truncated=unknown))


def test_answers_of_fixed_length_all_end_at_the_cap():
    """Where truncated rollouts succeed, the cap does not decide."""
    rewards = np.array([[0.0] * 8] * 6 + [[1.0, 0, 1, 0, 1, 0, 1, 0]] * 6 + [[1.0] * 8] * 2)
    assert RULE not in names(Groups.from_dense(rewards, truncated=np.ones(rewards.shape)))


@pytest.mark.parametrize("rate", [0.03, 0.3])
def test_a_model_without_an_end_token_is_always_truncated(rate):
    """Every completion ends at the cap and some succeed: hard prompts, not the cap."""
    rewards = binary(np.random.default_rng(0), np.full(200, rate), size=8)
    step = steps_of(200, 20)
    assert RULE not in names(Groups.from_dense(rewards, truncated=np.ones((200, 8)), step=step))
    ratio = {"completions/clipped_ratio": scalar([1.0] * 20)}
    assert RULE not in names(Run(Groups.from_dense(rewards, step=step), ratio))
    tied = (rewards.min(axis=1) == rewards.max(axis=1)).reshape(20, 10).mean(axis=1)
    bare = Groups.from_nested([])
    assert RULE not in names(Run(bare, ratio | scalars(frac_reward_zero_std=tied)))


def test_lengths_that_pile_up_at_a_round_maximum():
    rng = np.random.default_rng(1)
    rewards = np.array([[0.0] * 8] * 10 + [[0.0, 1.0] * 4] * 10)
    length = rng.integers(100, 900, rewards.shape)
    length[:10] = 1024
    found = the(Groups.from_dense(rewards, length=length), RULE)
    assert found.severity is Severity.WARNING
    assert found.evidence["seen_in"] == "length"
    # no pile, no round number, no long text: no cap
    length[:10] = rng.integers(100, 900, (10, 8))
    assert RULE not in names(Groups.from_dense(rewards, length=length))
    for maximum in (1021, 16):
        fixed = np.full(rewards.shape, maximum)
        assert RULE not in names(Groups.from_dense(rewards * 0, length=fixed))


def test_all_correct_groups_are_not_put_down_to_the_cap():
    assert RULE not in names(Groups.from_dense(np.ones((8, 8)), truncated=np.ones((8, 8))))


def test_scalars_alone():
    bare = Groups.from_nested([])
    dead = {"completions/clipped_ratio": scalar([1.0] * 20)}
    found = the(Run(bare, dead | scalars(frac_reward_zero_std=[1.0] * 20)), RULE)
    assert found.severity is Severity.ERROR
    both = Run(bare, dead | scalars(frac_reward_zero_std=[1.0] * 20))
    assert "max_completion_length" in the(both, "advantage-collapse").advice[0].action
    assert of(Run(bare, dead | scalars(frac_reward_zero_std=[0.1] * 20)), RULE) == []
    half = {"completions/clipped_ratio": scalar([0.5] * 20)}
    assert of(Run(bare, half | scalars(frac_reward_zero_std=[1.0] * 20)), RULE) == []


def test_rollouts_without_the_column_beside_the_scalar():
    """TRL's completions files do not say what was truncated; its log does, step by step."""
    step = np.repeat([1, 2, 3, 4], 4)
    groups = Groups.from_dense(np.zeros((16, 8)), step=step)
    ratio = {"completions/clipped_ratio": scalar([1.0, 1.0, 1.0, 0.1])}
    found = the(Run(groups, ratio), RULE)
    assert found.evidence["truncated_groups"] == 12
    assert found.evidence["seen_in"] == "completions/clipped_ratio"
    alive = Groups.from_dense(np.tile([0.0, 1.0], (16, 4)), step=step)
    assert of(Run(alive, ratio), RULE) == []


@pytest.mark.parametrize("clipped", [0.8, 0.85, 0.9])
def test_a_scalar_that_leaves_a_few_completions_whole(clipped):
    """Steps in which as many completions are cut as make a group truncated, on average."""
    rng = np.random.default_rng(3)
    cut = rng.random((200, 8)) < clipped
    rewards = np.where(cut, 0.0, rng.random((200, 8)) < 0.3)
    step = steps_of(200, 20)
    ratio = {"completions/clipped_ratio": scalar([clipped] * 20)}
    assert the(Run(Groups.from_dense(rewards, step=step), ratio), RULE).severity > Severity.INFO
    # where truncated completions succeed as well, the cap does not decide
    alike = binary(rng, np.full(200, 0.3), size=8)
    assert of(Run(Groups.from_dense(alike, step=step), ratio), RULE) == []
