"""The latent-skill task: one right rule, three wrong ones, and problems that tell them apart."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buttress.errors import UsageError
from buttress.lab.tasks import TASKS, LatentSkill, is_held_out, make_tokenizer
from tests.helpers import require

SEEDS = st.integers(0, 2**31 - 1)
SPLITS = st.sampled_from(["train", "held_out"])
TASK = LatentSkill()


@given(SEEDS, SPLITS)
def test_only_the_right_rule_is_ever_right(seed, split):
    for problem in TASK.problems(20, split=split, seed=seed):
        digits = problem.prompt[:-1]
        assert problem.prompt == f"{digits}="
        assert problem.answer == TASK.solve(problem.prompt) == "".join(sorted(digits))
        answers = {name: rule(digits) for name, rule in TASK.rules.items()}
        assert {len(answer) for answer in answers.values()} == {TASK.width}
        verdicts = {name: TASK.verify(problem.prompt, answer) for name, answer in answers.items()}
        assert verdicts == {"ascending": 1.0, "descending": 0.0, "copied": 0.0, "reversed": 0.0}
        assert [TASK.rule_of(problem.prompt, answers[name]) for name in answers] == list(answers)


@pytest.mark.parametrize("completion", ["", "01247", "0124788", " 012478", "012478=", "874210"])
def test_verifier_takes_the_exact_answer_only(completion):
    assert TASK.verify("407182=", "012478") == 1.0
    assert TASK.verify("407182=", completion) == 0.0


@given(SEEDS, SEEDS)
def test_splits_are_disjoint_whatever_the_seeds(one, other):
    train = {problem.prompt for problem in TASK.problems(200, split="train", seed=one)}
    held_out = {problem.prompt for problem in TASK.problems(200, split="held_out", seed=other)}
    corpus = {line.prompt for line in TASK.demonstrations(200, seed=one)}
    assert len(train) == len(held_out) == 200
    assert not held_out & (train | corpus)
    assert all(is_held_out(prompt[:-1]) for prompt in held_out)


@given(SEEDS, SPLITS)
def test_same_seed_same_problems(seed, split):
    first = TASK.problems(30, split=split, seed=seed)
    assert TASK.problems(30, split=split, seed=seed) == first
    assert TASK.problems(60, split=split, seed=seed)[:30] == first
    assert TASK.problems(30, split=split, seed=seed + 1) != first


@pytest.mark.parametrize("share", [0.03, 0.5])
def test_corpus_shows_the_right_rule_at_its_share(share):
    task, n = LatentSkill(share=share), 20_000
    corpus = task.demonstrations(n, seed=3)
    assert len(corpus) == n
    assert corpus == task.demonstrations(n, seed=3)
    for name, rule in task.rules.items():
        expected = share if name == "ascending" else (1 - share) / 3
        found = [line for line in corpus if line.rule == name]
        assert abs(len(found) / n - expected) < 5 * math.sqrt(expected * (1 - expected) / n)
        assert all(line.answer == rule(line.prompt[:-1]) for line in found)


def test_a_wrong_call_says_what_is_allowed():
    with pytest.raises(UsageError, match="width must be 4 or more"):
        LatentSkill(width=3)
    with pytest.raises(UsageError, match="share must lie between 0 and 1"):
        LatentSkill(share=1.0)
    with pytest.raises(UsageError, match="at most 500"):
        LatentSkill(width=4).problems(501, split="held_out", seed=0)
    assert len(LatentSkill(width=4).problems(500, split="held_out", seed=0)) == 500


@pytest.mark.trl
def test_tokenizer_is_one_token_a_character_and_goes_back_without_spaces():
    require("transformers")
    for task in TASKS.values():
        tokenizer = make_tokenizer(task)
        text = f"{task.symbols}{task.symbols[::-1]}"
        ids = tokenizer(text)["input_ids"]
        assert len(ids) == len(text)
        assert tokenizer.unk_token_id not in ids
        assert tokenizer.decode(ids) == text
        assert tokenizer.decode([*ids, tokenizer.eos_token_id], skip_special_tokens=True) == text
        assert tokenizer("4 x")["input_ids"][1:] == [tokenizer.unk_token_id] * 2
        padded = tokenizer(["12=", "407182="], padding=True)
        assert padded["input_ids"][0][:4] == [tokenizer.pad_token_id] * 4
        assert padded["attention_mask"][0] == [0, 0, 0, 0, 1, 1, 1]
