"""The rollouts shown are those of the groups that cost most, and few of them."""

from __future__ import annotations

import pytest
from made_runs import made_run, small, view_of

from buttress.groups import Groups, Run, Text
from buttress.report.samples import COMPLETION_CHARACTERS, GROUPS, ROLLOUTS


def test_samples_show_the_prompts_that_cost_most_first() -> None:
    asked: list[int] = []

    def texts(samples: list[int]) -> list[Text]:
        asked.extend(samples)
        return [Text("prompt", f"completion {one}") for one in samples]

    view = view_of(Run(small(), texts=texts))
    shown = [(one.kind, one.step, one.why) for one in view.samples]
    assert shown == [
        ("all wrong", 2, "2 groups like this, 120 tokens spent"),
        ("all correct", 2, "1 group like this, 20 tokens spent"),
        ("all the same, in between", 2, "1 group like this, 14 tokens spent"),
    ]
    # the texts of these groups and of no other
    assert asked == [8, 9, 10, 11, 12, 13, 14, 15, 16, 17]
    assert view.samples[0].rollouts[3].completion == "completion 11"
    facts = dict(view.samples[0].rollouts[3].facts)
    assert facts == {"reward": "0", "reward/format": "1", "advantage": "0.5", "tokens": "20"}


def test_samples_are_capped_in_number_and_length() -> None:
    run = made_run(ease=-0.2, size=16, complete=lambda sample, correct: "x" * 1_000_000)
    view = view_of(run)
    assert len(view.samples) == GROUPS
    for group in view.samples:
        assert len(group.rollouts) == ROLLOUTS
        assert group.left_out == 16 - ROLLOUTS
        for rollout in group.rollouts:
            assert rollout.completion is not None
            assert len(rollout.completion) < COMPLETION_CHARACTERS + 60
            assert "998,500 characters left out" in rollout.completion


def test_every_kind_is_sampled_before_any_is_shown_twice() -> None:
    nested = [[0, 0]] * 20 + [[1, 1]] + [[0.5, 0.5]]
    groups = Groups.from_nested(nested, prompt_id=[f"p{n}" for n in range(22)])
    kinds = [one.kind for one in view_of(groups).samples]
    assert kinds[:3] == ["all wrong", "all correct", "all the same, in between"]
    assert kinds[3:] == ["all wrong"] * 3


def test_groups_dead_in_correctness_alone_are_samples_too() -> None:
    groups = Groups.from_nested([[0.1, 0], [1, 0]], correct=[[0, 0], [1, 0]])
    assert [one.kind for one in view_of(groups).samples] == ["correctness tied, reward not"]


@pytest.mark.parametrize(
    "fault", [None, FileNotFoundError(2, "No such file", "x.jsonl"), Text("", "")]
)
def test_absent_texts_are_said_and_the_rest_is_shown(fault: object) -> None:
    def texts(samples: list[int]) -> list[Text]:
        if isinstance(fault, OSError):
            raise fault
        return [fault for _ in samples]  # type: ignore[misc]

    view = view_of(Run(small(), texts=texts if fault is not None else None))
    assert view.samples[0].no_text
    assert view.samples[0].rollouts[0].facts
