import numpy as np
import pytest

from buttress.groups import Groups, LogFacts, Run
from buttress.rules import Case, Severity, examine, verdict
from tests.rules.runs import binary, grpo, names, of, steps_of, the

RULE = "broken-grouping"


def test_fatal_grouping_leaves_the_rate_undefined():
    singles = Groups.from_flat([1, 0, 1, 0], list("abcd"), prompt_id=["p"] * 4)
    case = Case(Run(singles))
    found = examine(case)
    assert found[0].rule == RULE
    assert found[0].severity is Severity.ERROR
    assert np.isnan(case.acr)
    assert verdict(case, found) == "undefined"
    assert {one.rule for one in found} == {RULE}


def test_minor_faults_are_an_info():
    sizes = [1] + [4] * 30
    groups = Groups.from_nested([[0, 1, 0, 1][:n] for n in sizes])
    assert of(groups, RULE) == []
    groups = Groups.from_nested([[0.0, 1]] * 29 + [[0.0, 1, 0, 1]], prompt_id=list(range(30)))
    found = the(Run(groups, facts=LogFacts(grouped_by="prompt")), RULE)
    assert found.severity is Severity.INFO
    assert found.evidence["kind"] == "merged_groups"


def uneven(rng):
    return [rng.choice([0.0, 1.0, 2.0, 5.0], n) for n in rng.integers(3, 9, 60)]


@pytest.mark.parametrize("scaled", [None, 0, 1])
def test_flat_batch_over_uneven_groups_is_an_error(scaled):
    rewards = uneven(np.random.default_rng(0))
    rewards[3] = np.full(4, 5.0)
    step = np.repeat([1, 2, 3], 20)
    flat = []
    for i, row in enumerate(rewards):
        batch = np.concatenate([r for r, s in zip(rewards, step, strict=True) if s == step[i]])
        flat.append((row - batch.mean()) / (1 if scaled is None else batch.std(ddof=scaled)))
    found = the(Groups.from_nested(rewards, step=step, advantage=flat), RULE)
    assert found.severity is Severity.ERROR
    assert found.evidence["kind"] == "flat_batch"
    assert found.evidence["scale"] == ("none" if scaled is None else f"ddof {scaled}")


def test_flat_batch_over_even_groups_may_be_meant():
    rng = np.random.default_rng(1)
    rewards = binary(rng, rng.beta(1, 1, 200))
    flat = (rewards - rewards.mean()) / rewards.std()
    assert the(Groups.from_dense(rewards, advantage=flat), RULE).severity is Severity.WARNING


def test_one_tied_group_is_proof_enough():
    """Group-relative everywhere else: a partial fall-back still shows in the tied group."""
    rewards = [[1, 0, 1, 0], [5, 5, 5], [2, 4, 2, 4]]
    advantage = [[1, -1, 1, -1], [2.3636] * 3, [-1, 1, -1, 1]]
    found = the(Groups.from_nested(rewards, advantage=advantage), RULE)
    assert found.evidence["largest_in_tied_group"] == pytest.approx(2.3636)
    case = Case(Run(Groups.from_nested(rewards, advantage=advantage)))
    assert case.acr == pytest.approx(1 / 3)


def test_group_mean_over_batch_deviation_is_legitimate():
    rng = np.random.default_rng(2)
    rewards = [rng.choice([0.0, 1.0], n) for n in rng.integers(3, 9, 100)]
    deviation = np.concatenate(rewards).std(ddof=1)
    advantage = [(r - r.mean()) / deviation for r in rewards]
    assert RULE not in names(Groups.from_nested(rewards, advantage=advantage))


def test_no_group_baseline_is_mistaken_for_a_flat_one():
    rng = np.random.default_rng(3)
    rewards = binary(rng, rng.beta(0.6, 0.6, 400))
    step = steps_of(400, 20)
    virtual = grpo(rewards, ddof=0)
    mean = rewards.mean(axis=1)
    virtual[mean == 0], virtual[mean == 1] = -0.81, 0.81
    posterior = (rewards - (mean[:, None] * 8 + 2) / 12) / 0.45
    for advantage in (grpo(rewards), virtual, posterior):
        assert RULE not in names(Groups.from_dense(rewards, step=step, advantage=advantage))


def test_unscorable_rows_have_no_say():
    rewards = [[1, 0, None, 1], [5, None, 5, 5], [2, 4, 2, 4]]
    scored = [1, 0, 1, 5, 5, 5, 2, 4, 2, 4]
    flat = [[None if r is None else r - np.mean(scored) for r in row] for row in rewards]
    found = the(Groups.from_nested(rewards, advantage=flat), RULE)
    assert found.evidence["groups"] >= 1
