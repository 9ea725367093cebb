import numpy as np
import pytest
from scipy.stats import betabinom

from buttress.groups import Groups, LogFacts, Run
from buttress.rules import Case, Severity, beta_binomial, examine, verdict
from buttress.rules.filtering import SuccessCounts, no_tie_probability
from tests.rules.runs import binary, names, of, steps_of, the


class TestUnscorable:
    rule = "unscorable-rewards"

    def test_two_of_four(self):
        found = the(Groups.from_nested([[None, -1, -1, None]]), self.rule)
        assert found.severity is Severity.WARNING
        assert found.evidence["unscorable"] == 2
        assert found.evidence["groups_unscorable"] == 0

    def test_all_null_is_not_all_wrong(self):
        groups = Groups.from_nested([[None] * 4] * 8)
        case = Case(Run(groups))
        found = examine(case)
        assert [one.rule for one in found] == [self.rule]
        assert found[0].severity is Severity.ERROR
        assert verdict(case, found) == "undefined"

    def test_infinite_rewards_are_named(self):
        found = the(Groups.from_nested([[np.inf, 1, 0, 1]] * 4), self.rule)
        assert found.evidence["infinite"] == 4

    def test_few_are_an_info_and_none_is_silent(self):
        rewards = np.tile([0.0, 1.0], (64, 4))
        rewards[0, 0] = np.nan
        assert the(Groups.from_dense(rewards), self.rule).severity is Severity.INFO
        assert self.rule not in names(Groups.from_dense(np.nan_to_num(rewards)))

    def test_says_where(self):
        rewards = np.tile([0.0, 1.0], (64, 4))
        rewards[40:48, 0] = np.nan
        groups = Groups.from_dense(rewards, step=steps_of(64, 8))
        assert the(groups, self.rule).steps == (6, 6)


def sampled(n: int, size: int = 8, a: float = 0.6, b: float = 0.6, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return binary(rng, rng.beta(a, b, n), size)


def mixed(outcome: np.ndarray) -> np.ndarray:
    return outcome.min(axis=1) < outcome.max(axis=1)


class TestFiltered:
    rule = "filtered-log"

    def test_missing_groups(self):
        outcome = sampled(400)
        kept = mixed(outcome)
        groups = Groups.from_dense(outcome[kept], step=steps_of(400, 20)[kept])
        case = Case(Run(groups))
        found = examine(case)
        assert the(groups, self.rule).severity is Severity.WARNING
        assert np.isnan(case.acr)
        assert "filtered" in case.undefined
        assert verdict(case, found) == "undefined"

    def test_fewer_than_configured(self):
        groups = Groups.from_nested([[1, 0, 1, 0]] * 6, step=[1, 1, 1, 2, 2, 2])
        assert self.rule not in names(groups)
        assert self.rule in names(Run(groups, facts=LogFacts(groups_per_step=4)))

    def test_holes_in_a_counter_of_groups(self):
        outcome = sampled(200)
        kept = np.flatnonzero(mixed(outcome))
        # the trainer fills its batch: as many groups in every step
        kept = kept[: len(kept) // 10 * 10]
        rows = np.repeat(kept, 8)
        step = np.repeat(np.arange(len(kept) // 10), 80)
        assert (
            the(Groups.from_flat(outcome[kept].ravel(), rows, step=step), self.rule).evidence[
                "missing"
            ]
            > 0
        )
        # the same holes in ids that are drawn in any order are those of a data set
        shuffled = np.random.default_rng(1).permutation(200)[rows]
        found = of(Groups.from_flat(outcome[kept].ravel(), shuffled, step=step), self.rule)
        assert all(one.evidence["missing"] == 0 for one in found)

    @pytest.mark.parametrize(("n", "size"), [(400, 8), (400, 4), (20_000, 8)])
    def test_chance_convicts_a_log_that_looks_filtered(self, n, size):
        outcome = sampled(n, size)
        found = the(Groups.from_dense(outcome[mixed(outcome)]), self.rule)
        assert found.evidence["conclusive"] is True
        assert found.evidence["chance_of_no_tie"] < 1e-6

    @pytest.mark.parametrize("group", [[1, 0, 1, 0], [1, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0]])
    def test_one_made_up_group_repeated_is_no_filter(self, group):
        assert self.rule not in names(Groups.from_nested([group] * 500))

    def test_pairs_are_mixed_by_construction(self):
        """One winner and one loser per pair: chance cannot tell that from a filter."""
        pairs = [[1, 0]] * 500
        assert self.rule not in names(Groups.from_nested(pairs))
        triples = [[1, 0, 0], [1, 1, 0]] * 250
        assert the(Groups.from_nested(triples), self.rule).severity is Severity.INFO

    def test_large_groups_of_moderate_prompts_do_not_tie(self):
        rng = np.random.default_rng(2)
        outcome = binary(rng, rng.uniform(0.3, 0.7, 300), size=32)
        step = np.sort(rng.integers(0, 30, 300))
        assert self.rule not in names(Groups.from_dense(outcome, step=step))

    def test_continuous_rewards_never_convict(self):
        rng = np.random.default_rng(3)
        step = np.sort(rng.integers(0, 30, 300))
        groups = Groups.from_dense(rng.normal(size=(300, 8)), step=step)
        assert self.rule not in names(groups)

    def test_few_levels_convict_with_missing_groups(self):
        rng = np.random.default_rng(4)
        levels = rng.binomial(2, rng.beta(0.5, 0.5, 600)[:, None], (600, 4)) / 2
        kept = mixed(levels)
        step = steps_of(600, 30)
        assert self.rule in names(Groups.from_dense(levels[kept], step=step[kept]))
        assert self.rule not in names(Groups.from_dense(levels, step=step))

    def test_a_filter_on_correctness_under_a_continuous_reward(self):
        rng = np.random.default_rng(5)
        outcome = sampled(400)
        kept = mixed(outcome)
        reward = outcome - rng.uniform(0, 0.1, outcome.shape)
        groups = Groups.from_dense(reward[kept], correct=outcome[kept])
        assert self.rule in names(groups)
        assert self.rule not in names(Groups.from_dense(reward, correct=outcome))

    def test_a_known_filter_needs_no_test(self):
        groups = Groups.from_nested([[1, 0], [1, 1]])
        case = Case(Run(groups, facts=LogFacts(filtered=True)))
        assert np.isnan(case.acr)
        assert "drops tied groups" in the(case.run, self.rule).message

    def test_one_tied_group_clears_the_log(self):
        outcome = sampled(400)
        kept = mixed(outcome)
        kept[np.flatnonzero(~kept)[0]] = True
        groups = Groups.from_dense(outcome[kept], step=steps_of(400, 20)[kept])
        assert self.rule not in names(groups)


def test_beta_binomial_against_scipy():
    k = np.arange(9)
    for a, b in ((0.3, 0.7), (1.0, 1.0), (20.0, 5.0)):
        ours = np.exp(beta_binomial.log_probability(k, np.full(9, 8), a, b))
        np.testing.assert_allclose(ours, betabinom.pmf(k, 8, a, b), rtol=1e-9)
        tie = beta_binomial.tie_probability(np.array([8]), a, b)
        np.testing.assert_allclose(tie, betabinom.pmf([0, 8], 8, a, b).sum(), rtol=1e-9)


@pytest.mark.parametrize("truncated", [False, True])
def test_fit_finds_the_parameters(truncated):
    k = betabinom.rvs(8, 0.8, 1.6, size=200_000, random_state=0)
    if truncated:
        k = k[(k > 0) & (k < 8)]
    outcome, times = np.unique(k, return_counts=True)
    a, b = beta_binomial.fit(outcome, np.full_like(outcome, 8), times, truncated=truncated)
    assert a == pytest.approx(0.8, rel=0.1)
    assert b == pytest.approx(1.6, rel=0.1)


def test_chance_of_no_tie_is_calibrated():
    """Over innocent logs, the chance that no group ties is not too small where none does."""
    rng = np.random.default_rng(6)
    seen, said = [], []
    for _ in range(300):
        wins = rng.binomial(8, rng.beta(4, 4, 20))
        outcome, times = np.unique(wins, return_counts=True)
        counts = SuccessCounts(outcome, np.full_like(outcome, 8), times)
        seen.append(not np.isin(wins, (0, 8)).any())
        said.append(no_tie_probability(counts))
    assert np.mean(said) == pytest.approx(np.mean(seen), abs=0.08)


def test_rejection_rate_of_the_truncated_fit():
    """Filtered beta-binomial logs must pass: rejected in about one case of a thousand."""
    rng = np.random.default_rng(7)
    rejected = 0
    for _ in range(100):
        k = betabinom.rvs(8, 0.5, 0.8, size=300, random_state=rng)
        k = k[(k > 0) & (k < 8)]
        outcome, times = np.unique(k, return_counts=True)
        p = beta_binomial.truncated_fit(outcome, np.full_like(outcome, 8), times, most=1000)
        rejected += p < 1e-3
    assert rejected <= 2
