"""The latent-skill task: one right rule, three wrong ones, and problems that tell them apart."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buttress.errors import UsageError
from buttress.lab.tasks import (
    TASKS,
    Addition,
    LatentSkill,
    Maze,
    Modular,
    Multiplication,
    Parity,
    encode,
    is_held_out,
    make_tokenizer,
    vocabulary,
)
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
        LatentSkill(share=1.1)
    with pytest.raises(UsageError, match="at most 500"):
        LatentSkill(width=4).problems(501, split="held_out", seed=0)
    assert len(LatentSkill(width=4).problems(500, split="held_out", seed=0)) == 500


@pytest.mark.trl
def test_tokenizer_is_one_token_a_character_and_goes_back_without_spaces():
    require("transformers")
    for task in (kind() for kind in TASKS.values()):
        tokenizer = make_tokenizer(task)
        text = f"{task.symbols}{task.symbols[::-1]}"
        ids = tokenizer(text)["input_ids"]
        assert len(ids) == len(text)
        assert tokenizer.unk_token_id not in ids
        assert tokenizer.decode(ids) == text
        assert tokenizer.decode([*ids, tokenizer.eos_token_id], skip_special_tokens=True) == text
        assert tokenizer("1 x")["input_ids"][1:] == [tokenizer.unk_token_id] * 2
        padded = tokenizer(["10=", "100110="], padding=True)
        assert padded["input_ids"][0][:4] == [tokenizer.pad_token_id] * 4
        assert padded["attention_mask"][0] == [0, 0, 0, 0, 1, 1, 1]


KINDS = st.sampled_from(sorted(TASKS))


@given(KINDS, SEEDS, SEEDS)
def test_every_task_has_one_right_answer_one_width_and_disjoint_splits(name, one, other):
    task = TASKS[name]()
    train = task.problems(40, split="train", seed=one)
    held_out = task.problems(40, split="held_out", seed=other)
    assert not {problem.prompt for problem in train} & {problem.prompt for problem in held_out}
    assert len({problem.prompt for problem in train}) == 40
    assert encode(task, [problem.prompt for problem in train]).shape[0] == 40
    assert encode(task, [problem.answer for problem in train + held_out]).min() >= 3
    for prompt, answer in train:
        verdicts = [task.verify(prompt, rule(prompt[:-1])) for rule in task.rules.values()]
        assert verdicts == [1.0] + [0.0] * (len(verdicts) - 1)
        assert {len(rule(prompt[:-1])) for rule in task.rules.values()} == {len(answer)}
        assert set(prompt + answer) <= set(vocabulary(task))


@given(st.integers(0, 99), st.integers(0, 99))
def test_arithmetic_is_arithmetic(a, b):
    assert int(Addition().solve(f"{a:02}+{b:02}=")[::-1]) == a + b
    assert int(Multiplication().solve(f"{a:02}*{b:02}=")[::-1]) == a * b
    assert int(Modular(modulus=101).solve(f"{a:03}@{b:03}=")) == a * b % 101


@given(st.text("01", min_size=4, max_size=20))
def test_parity_counts_the_ones_of_each_prefix(bits):
    found = Parity(width=len(bits)).solve(f"{bits}=")
    assert [int(odd) for odd in found] == [bits[: n + 1].count("1") % 2 for n in range(len(bits))]


@given(SEEDS, st.integers(3, 6))
def test_a_maze_is_a_tree_and_its_way_leads_to_the_goal(seed, size):
    task = Maze(size=size, longest=size * size)
    for prompt, answer in task.problems(5, split="train", seed=seed):
        body = prompt[:-1]
        assert sum(int(cell).bit_count() for cell in body) == size * size - 1  # borders of a tree
        row = column = 0
        been = {(0, 0)}
        for move in answer.rstrip("."):
            there = row + (move == "D") - (move == "U"), column + (move == "R") - (move == "L")
            across = min((row, column), there)
            opening = 1 if move in "RL" else 2
            assert int(body[across[0] * size + across[1]]) & opening
            row, column = there
            assert there not in been
            been.add(there)
        assert (row, column) == (size - 1, size - 1)


def test_a_split_that_is_too_small_says_how_large_it_is():
    with pytest.raises(UsageError, match="200 different problems asked of Addition"):
        Addition(digits=1).problems(200, split="train", seed=0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Addition(digits=0), "digits must be 1 or more"),
        (lambda: Modular(modulus=4), "modulus must be 5 or more"),
        (lambda: Parity(width=3), "width must be 4 or more"),
        (lambda: Maze(size=2), "size must be 3 or more"),
        (lambda: Maze(size=4, longest=5), "longest must be 6 or more"),
        (lambda: Maze(share=0.0), "share must lie between 0 and 1"),
    ],
)
def test_sizes_that_make_no_task(make, message):
    with pytest.raises(UsageError, match=message):
        make()
