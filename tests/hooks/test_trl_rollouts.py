"""From TRL's tensors to groups, piece by piece."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import buttress as bt
from buttress.hooks.trl.rollouts import local_facts, prompt_number, total_rewards, verdicts
from buttress.logs.prose import text_digest
from tests.helpers import require

torch = require("torch")
pytestmark = pytest.mark.trl

CHAT = [{"role": "user", "content": "2+2?"}]


def image(seed):
    return np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)


def test_prompts_are_told_apart_by_text_and_images():
    rows = [
        {"prompt": "2+2?"},
        {"prompt": "2+2? "},
        {"prompt": CHAT, "image": image(1)},
        {"prompt": CHAT, "image": image(2)},
        {"prompt": CHAT, "images": [image(1), image(2)]},
        {"prompt": CHAT, "images": [image(2), image(1)]},
    ]
    assert len({prompt_number(row) for row in rows}) == len(rows)
    again = [{"answer": 4, "trainer_extra": object(), **row} for row in rows]
    assert [prompt_number(row) for row in again] == [prompt_number(row) for row in rows]


@pytest.mark.parametrize("prompt", ["2+2?", CHAT, "naïve\ud800"])
def test_an_identity_is_that_of_the_log_readers(prompt):
    text = prompt if isinstance(prompt, str) else prompt[0]["content"]
    assert f"{prompt_number({'prompt': prompt}) % 2**64:016x}" == text_digest(text)


def test_without_a_prompt_the_row_is_the_task():
    assert prompt_number({"level": 1}) != prompt_number({"level": 2})
    shared = {"prompt": "play"}
    first, second = shared | {"level": 1}, shared | {"level": 2}
    assert prompt_number(first) == prompt_number(second)
    assert prompt_number(first, whole=True) != prompt_number(second, whole=True)


def facts(completion_ids, **output):
    trainer = SimpleNamespace(
        eos_token_ids=[9, 8],
        _tokenizer=SimpleNamespace(pad_token_id=0),
        environment_factories=None,
    )
    inputs = [{"prompt": "p"}] * len(completion_ids)
    width = max(map(len, completion_ids))
    written = [[at < len(ids) for at in range(width)] for ids in completion_ids]
    output = {
        "advantages": torch.zeros(len(completion_ids)),
        "completion_mask": torch.tensor(written).long(),
        **output,
    }
    return local_facts(trainer, inputs, completion_ids, output)[:, 2:].tolist()


def test_lengths_and_truncation_as_trl_counts_them():
    ids = [[1, 2, 9], [1, 2, 3, 4], [8], [1, 0], [0]]
    assert facts(ids) == [[3, 0, 3], [4, 1, 4], [1, 0, 1], [2, 0, 2], [1, 0, 1]]


def test_tool_output_is_no_completion_token():
    ids = [[1, 2, 3, 9], [1, 2], [1, 2, 3]]
    # padded with ones; the last row is hidden by mask_truncated_completions
    mask = torch.tensor([[1, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]])
    assert facts(ids, tool_mask=mask) == [[2, 0, 2], [2, 1, 2], [3, 1, 0]]


def test_total_is_null_only_where_no_function_gave_a_reward():
    nan = float("nan")
    matrix = torch.tensor([[1.0, 2.0], [nan, 2.0], [1.0, nan], [nan, nan]])
    total = total_rewards(matrix, torch.tensor([1.0, 0.5]))
    torch.testing.assert_close(total, torch.tensor([2.0, 1.0, 1.0, nan]), equal_nan=True)


@pytest.mark.parametrize(
    ("names", "rewards", "expected"),
    [
        (("format", "accuracy_reward"), [[0.1, 0.0], [0.1, 1.0]], [0.0, 1.0]),
        (("correct",), [[0.0], [float("nan")]], [0.0, float("nan")]),
        (("accuracy",), [[-1.0], [1.0]], None),
        (("accuracy",), [[0.0], [2.0]], None),
        (("accuracy",), [[float("nan")], [float("nan")]], None),
        (("format_accuracy", "length"), [[1.0, 0.2], [0.0, 0.1]], None),
        ((), [[], []], None),
    ],
)
def test_a_verdict_is_known_by_its_name_and_range(names, rewards, expected):
    found = verdicts(torch.tensor(rewards).reshape(2, len(names)), names)
    if expected is None:
        assert found == {}
    else:
        np.testing.assert_array_equal(found["correct"], expected)


def test_a_constant_format_reward_does_not_make_failures_successes():
    matrix = torch.tensor([[0.1, 0.0]] * 4)
    rewards = matrix.sum(1)
    plain = bt.Groups.from_flat(rewards, [0] * 4)
    known = bt.Groups.from_flat(rewards, [0] * 4, **verdicts(matrix, ("format", "correct")))
    assert bt.estimator("avspo", threshold="always")(plain).min() > 0
    assert bt.estimator("avspo", threshold="always")(known).max() < 0
