"""The view model says what the numbers say: checked against groups worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from made_runs import made_run, small, view_of

from buttress.groups import Groups, Problem, Run, Source, Tolerance
from buttress.report import diagnose
from buttress.report.prompt_states import STATES
from buttress.report.view import PROBLEMS, View


def series(view: View, key: str) -> dict[str, list[float | None]]:
    return {one.name: list(one.values) for one in view.chart(key).series}


def test_key_numbers_are_those_of_the_groups() -> None:
    numbers = {one.label: one for one in view_of(small()).numbers}
    assert numbers["Collapse rate (ACR)"].value == "0.80"  # 4 of 5
    assert numbers["Effective batch"].value == "0.22"  # 4 of 18 rollouts
    assert numbers["Wasted rollouts"].value == "14"
    assert numbers["Wasted rollouts"].note == "of 18 (78%), in tied groups"
    assert numbers["Wasted tokens"].value == "154"  # 40 + 80 + 20 + 14
    assert numbers["Wasted tokens"].note == "of 164 (94%)"


def test_the_interval_is_the_one_of_the_json_report() -> None:
    diagnosis = diagnose(made_run())
    low, high = diagnosis.as_dict()["measures"]["acr_interval"]
    note = View.of(diagnosis).numbers[0].note
    assert note == f"95% interval {low:.2f} to {high:.2f}"


def test_the_sentence_names_the_dominant_kind() -> None:
    view = view_of(small())
    assert view.sentence == (
        "80% of the groups are tied and teach nothing, most often all wrong. "
        "22% of the rollouts carry a signal."
    )


def test_the_sentence_tells_correctness_that_is_deader_than_the_reward() -> None:
    groups = Groups.from_nested(
        [[0.1, 0, 0.1], [0, 0.1, 0], [0, 0, 0]], correct=[[0, 0, 0], [0, 0, 0], [0, 0, 0]]
    )
    assert "in correctness alone 100% are tied" in view_of(groups).sentence


def test_parts_are_the_groups_by_kind_and_add_up() -> None:
    parts = {one.name: one for one in view_of(small()).parts}
    counts = {name: one.groups for name, one in parts.items()}
    assert counts == {"mixed": 1, "all wrong": 2, "all correct": 1, "all the same, in between": 1}
    assert sum(one.share for one in parts.values()) == pytest.approx(1)
    assert parts["all wrong"].text == "2 (40%)"


def test_shares_over_the_steps_are_by_kind() -> None:
    view = view_of(small())
    chart = view.chart("acr")
    assert chart.labels == ("1", "2")
    shares = series(view, "acr")
    assert shares["all wrong"] == [0.5, pytest.approx(1 / 3, abs=1e-4)]
    assert shares["all correct"] == [0, pytest.approx(1 / 3, abs=1e-4)]
    assert shares["mean reward"] == [0.25, 0.5]  # 2 of 8; (0 + 4 + 1) of 10
    assert chart.series[0].detail == ("1 of 2 (50%)", "1 of 3 (33%)")
    assert not next(one for one in chart.series if one.name == "mean reward").shown


def test_a_long_run_is_added_up_and_nothing_is_lost() -> None:
    rng = np.random.default_rng(0)
    rewards = rng.integers(0, 2, size=(4203, 3))
    step = np.sort(rng.integers(0, 2100, size=4203))
    diagnosis = diagnose(Groups.from_dense(rewards, step=step))
    view = View.of(diagnosis)
    chart = view.chart("acr")
    n_steps = len(np.unique(step))
    per = -(-n_steps // 500)
    assert len(chart.labels) == -(-n_steps // per) <= 500
    assert f"adds up {per} consecutive steps" in chart.note
    assert chart.labels[-1].split("–")[-1] == str(step.max())
    counted = sum(int(said.split(" of ")[0]) for said in chart.series[0].detail)
    assert counted == diagnosis.case.counts.all_wrong
    first = np.isin(step, np.unique(step)[:per])
    wrong = (rewards[first] == 0).all(axis=1)
    assert chart.series[0].values[0] == pytest.approx(wrong.mean(), abs=1e-4)
    means = series(view, "means")["reward"]
    assert means[0] == pytest.approx(rewards[first].mean(), abs=1e-3)


def test_the_smoothed_rate_counts_groups_and_not_steps() -> None:
    # 21 steps; the middle one has 9 tied groups, every other step one mixed group
    nested = [[0, 1]] * 10 + [[0, 0]] * 9 + [[0, 1]] * 10
    step = [*range(10), *[10] * 9, *range(11, 21)]
    smooth = series(view_of(Groups.from_nested(nested, step=step)), "acr")["ACR over 5 steps"]
    assert smooth[10] == pytest.approx(9 / 13, abs=1e-3)
    assert smooth[8] == pytest.approx(9 / 13, abs=1e-3)
    assert smooth[7] == 0
    assert smooth[0] == 0


def test_success_rates_have_a_bar_for_each_number_of_successes() -> None:
    nested = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 1, 1]]
    view = view_of(Groups.from_nested(nested))
    assert view.chart("success").labels == ("0/3", "1/3", "2/3", "3/3")
    assert series(view, "success") == {
        "mixed": [0, 1, 1, 0],
        "all wrong": [1, 0, 0, 0],
        "all correct": [0, 0, 0, 2],
    }
    assert "20% of the groups have no success at all, 40%" in view.chart("success").lead


def test_success_rates_of_uneven_groups_keep_exact_zero_and_one_apart() -> None:
    view = view_of(small())
    chart = view.chart("success")
    assert chart.labels[0] == "0"
    assert chart.labels[-1] == "1"
    bars = series(view, "success")
    assert bars["all wrong"][0] == 2
    assert bars["all correct"][-1] == 1
    assert bars["all the same, in between"][chart.labels.index("0.5–0.6")] == 1
    assert sum(map(sum, bars.values())) == 5  # type: ignore[arg-type]


def test_a_reward_mixed_over_dead_correctness_stands_at_zero_success() -> None:
    groups = Groups.from_nested([[0.1, 0], [0.1, 0.1]], correct=[[0, 0], [1, 1]])
    bars = series(view_of(groups), "success")
    assert bars["mixed"] == [1, 0, 0]
    assert bars["all correct"] == [0, 0, 1]


def test_prompts_by_state() -> None:
    lost = [[1] * 10] * 6 + [[0] * 10] * 6
    nested = [[0] * 10, [1] + [0] * 9, [1] * 10, [None] * 10, [0, 1] * 5, *lost]
    ids = ["a", "b", "c", "d", "e", *["f"] * 12]
    texts = [[f"text of {'b' if one == 'e' else one}"] * 10 for one in ids]
    step = [1] * 5 + list(range(1, 13))
    groups = Groups.from_nested(nested, prompt_id=ids, prompt=texts, step=step)
    chart = view_of(groups).chart("prompts")
    assert chart.labels == tuple(name for name, *_ in STATES)
    assert chart.series[0].values == (1, 1, 1, 1, 1, 1)
    assert chart.lead.startswith("6 prompts, 10 tries each (median); 50% are")


def test_prompt_states_take_all_visits_together() -> None:
    groups = Groups.from_nested([[0, 0], [1, 1]], prompt_id=["a", "a"], step=[1, 2])
    chart = view_of(groups).chart("prompts")
    assert dict(zip(chart.labels, chart.series[0].values, strict=True))["learning"] == 1


def test_components_have_their_own_rate() -> None:
    chart = view_of(small()).chart("components")
    assert chart.labels == ("reward", "reward/format")
    assert chart.series[0].values == (0.8, 0.6)
    assert chart.series[0].detail == ("0.80", "0.60")


def test_advantages_count_zeros_and_those_of_tied_groups() -> None:
    view = view_of(small())
    chart = view.chart("advantages")
    middle = chart.labels.index("0")
    bars = series(view, "advantages")
    assert bars["in tied groups"][middle] == 13
    assert sum(bars["in tied groups"]) == 14  # type: ignore[arg-type]
    assert sum(bars["in mixed groups"]) == 4  # type: ignore[arg-type]
    assert chart.lead == (
        "72% of the logged advantages are exactly 0; the largest magnitude is 1. "
        "1 rollout of tied groups have one that is not 0."
    )


def test_one_giant_advantage_does_not_hide_the_others() -> None:
    rng = np.random.default_rng(0)
    advantage = rng.normal(size=(400, 8))
    advantage[0, 0] = 1e6
    groups = Groups.from_dense(rng.integers(0, 2, size=(400, 8)), advantage=advantage)
    view = view_of(groups)
    total = np.sum([one.values for one in view.chart("advantages").series], axis=0)
    assert (total > 20).sum() > 15
    assert total.sum() == 3200


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("prompts", "which prompt"),
        ("components", "total reward only"),
        ("advantages", "no advantages"),
        ("acr", "one step"),
    ],
)
def test_what_the_log_lacks_is_said_and_not_drawn_as_zero(key: str, reason: str) -> None:
    chart = view_of(Groups.from_nested([[0, 1], [1, 1]])).chart(key)
    assert not chart.drawn
    assert reason in chart.missing


def test_undefined_numbers_are_dashes_with_the_reason() -> None:
    # four rollouts of one prompt under four ids
    groups = Groups.from_flat([1, 0, 1, 0], list("abcd"), prompt_id=["p"] * 4)
    view = view_of(groups)
    assert view.verdict == "undefined"
    first, *others = view.numbers[:4]
    assert "single rollout" in first.note
    assert [number.note for number in others] == ["for the same reason"] * 3
    for number in view.numbers[:4]:
        assert number.value == "–"
    assert "cannot be measured" in view.sentence
    assert not view.chart("acr").drawn


def test_an_empty_run_makes_a_report() -> None:
    view = view_of(Run(Groups.from_nested([])))
    assert view.sentence.startswith("The log holds no rollouts")
    assert view.parts == ()
    assert not any(chart.drawn for chart in view.charts)


def test_all_null_rewards_make_a_report() -> None:
    view = view_of(Groups.from_nested([[None, None], [None, None]], prompt_id=["a", "b"]))
    assert view.verdict == "undefined"
    assert view.numbers[0].value == "–"


def test_facts_name_format_tolerance_and_what_was_inferred() -> None:
    source = Source(paths=("a", "b"), format="verl", inferred=("one thing", "another"))
    view = view_of(Run(small(), source=source), tolerance=Tolerance(atol=0.25, rtol=0))
    facts = dict(view.facts)
    assert facts["Read from"] == "a, b"
    assert facts["Format"] == "verl"
    assert facts["Tied"].startswith("max − min ≤ 0.25 + 0 ·")
    assert [said for name, said in view.facts if name == "Inferred"] == ["one thing", "another"]
    assert facts["Group sizes"] == "4 (4 groups), 2 (1 group)"


def test_problems_are_named_by_file_and_line_and_capped() -> None:
    problems = tuple(Problem(f"f{n}.jsonl", n, "cut off") for n in range(PROBLEMS + 7))
    view = view_of(Run(small(), problems=problems))
    assert view.problems[0].place == "f0.jsonl"  # line 0 means the whole file
    assert view.problems[3].place == "f3.jsonl:3"
    assert len(view.problems) == PROBLEMS
    assert view.problems_left_out == 7


def test_findings_carry_evidence_and_advice_in_words() -> None:
    diagnosis = diagnose(made_run(ease=-0.4))
    finding = View.of(diagnosis).findings[0]
    given = diagnosis.findings[0]
    assert (finding.rule, finding.code) == (given.rule, given.code)
    assert finding.severity == "error"
    assert finding.steps.startswith("steps ")
    assert len(finding.evidence) == len(given.evidence)
    assert [one.action for one in finding.advice] == [one.action for one in given.advice]


def test_each_advice_is_said_once_and_referred_to_later() -> None:
    diagnosis = diagnose(made_run(ease=-0.4))
    findings = View.of(diagnosis).findings
    said = [one.action for finding in findings for one in finding.advice]
    assert len(said) == len(set(said))
    everything = {one.action for finding in diagnosis.findings for one in finding.advice}
    assert set(said) == everything
    codes = [finding.code for finding in findings]
    for place, (shown, given) in enumerate(zip(findings, diagnosis.findings, strict=True)):
        assert bool(shown.see) == (len(shown.advice) < len(given.advice))
        for code in codes[place:]:
            assert code not in shown.see
    assert any(finding.see == "as under BT101 above" for finding in findings)


def test_a_table_stands_for_each_chart() -> None:
    view = view_of(made_run())
    for chart in view.charts:
        assert chart.header[0]
        assert len(chart.rows) + chart.rows_left_out == len(chart.labels)
        assert len(chart.rows) <= 24
        assert all(len(row) == len(chart.header) for row in chart.rows)
