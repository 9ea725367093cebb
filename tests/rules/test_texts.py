import numpy as np
import pytest

from buttress.groups import Groups, Run, Text
from buttress.rules import Severity
from tests.rules.runs import binary, names, the

RULE = "duplicate-completions"


def groups_of(identical: int, n: int = 100, *, length: int = 200, reward: float = 0.0) -> Groups:
    """Build groups of which some hold one text only and tie at a reward."""
    rng = np.random.default_rng(0)
    rewards = binary(rng, np.full(n, 0.5))
    codes = rng.integers(1, 2**60, (n, 8))
    codes[:identical] = codes[:identical, :1]
    rewards[:identical] = reward
    return Groups.from_dense(
        rewards, completion=codes, length=np.full((n, 8), length), correct=rewards
    )


@pytest.mark.parametrize(
    ("identical", "severity"), [(90, Severity.ERROR), (30, Severity.WARNING), (5, None)]
)
def test_long_texts(identical, severity):
    if severity is None:
        assert RULE not in names(groups_of(identical))
        return
    found = the(groups_of(identical), RULE)
    assert found.severity is severity
    assert found.evidence["identical"] == identical
    assert "seed" in found.advice[0].action


def test_explains_the_collapse_and_its_cure():
    run = groups_of(90)
    assert names(run)[0] == RULE
    assert "seed" in the(run, "advantage-collapse").advice[0].action
    assert "all-wrong-collapse" not in names(run)


def test_mastered_prompts_with_one_answer():
    assert the(groups_of(60, reward=1.0), RULE).severity is Severity.INFO
    assert RULE not in names(groups_of(60, reward=1.0, length=1))


def test_noise_of_the_reward_does_not_hide_that_prompts_are_mastered():
    rng = np.random.default_rng(4)
    mastered = groups_of(60, reward=1.0, length=1)
    noise = 1e-3 * rng.standard_normal(mastered.n_samples).reshape(100, 8)
    rewards = mastered.rewards.reshape(100, 8) + noise
    codes = mastered.columns["completion"].reshape(100, 8)
    assert RULE not in names(Groups.from_dense(rewards, completion=codes, length=codes * 0 + 1))
    # the verdict knows better than the level of the reward
    wrong = Groups.from_dense(
        rewards, completion=codes, length=codes * 0 + 1, correct=np.zeros((100, 8))
    )
    assert RULE in names(wrong)


def test_short_answers_need_half_of_the_groups():
    assert RULE not in names(groups_of(40, length=1))
    assert the(groups_of(60, length=1), RULE).severity is Severity.WARNING


def test_every_rank_with_the_same_seed():
    """Eight rollouts, four ranks, two different texts."""
    rng = np.random.default_rng(1)
    codes = np.tile(rng.integers(1, 2**60, (100, 2)), (1, 4))
    rewards = np.tile(rng.integers(0, 2, (100, 2)).astype(float), (1, 4))
    groups = Groups.from_dense(rewards, completion=codes, length=np.full((100, 8), 200))
    found = the(groups, RULE)
    assert found.severity is Severity.WARNING
    assert found.evidence["repeated_rate"] == pytest.approx(0.75)
    assert "repeat another" in found.message


def test_texts_as_strings_and_missing_ones():
    long = "a chain of thought that nobody writes twice by chance " * 3
    same = [[long] * 4] * 30
    other = [[f"{long}{i}{j}" for j in range(4)] for i in range(30)]
    rewards = [[0.0] * 4] * 30 + [[0.0, 1, 0, 1]] * 30
    found = the(Groups.from_nested(rewards, completion=same + other), RULE)
    assert found.evidence["unit"] == "characters"
    assert found.evidence["identical"] == 30
    unknown = [[None] * 4] * 30
    assert RULE not in names(Groups.from_nested(rewards, completion=unknown + other))


def test_lengths_are_fetched_where_the_log_holds_only_hashes():
    codes = np.repeat(np.arange(30), 4).reshape(30, 4)
    groups = Groups.from_dense(np.zeros((30, 4)), completion=codes)
    assert RULE in names(Run(groups, texts=lambda asked: [Text("p", "x" * 300)] * len(asked)))

    def gone(asked):
        raise OSError("the file has gone")

    assert the(Run(groups, texts=gone), RULE).severity is Severity.WARNING


def test_empty_completions_have_their_own_cause():
    groups = Groups.from_dense(
        np.zeros((30, 4)), completion=np.ones((30, 4), dtype=int), length=np.zeros((30, 4))
    )
    assert "stop tokens" in the(groups, RULE).advice[0].action


def test_different_texts_are_silent():
    assert RULE not in names(groups_of(0))
