"""The shipped checkpoint: small, loadable, and where the README says that it starts."""

import math

import numpy as np
import pytest

from buttress.groups import Groups
from buttress.lab import checkpoint
from buttress.lab.tasks import LatentSkill, Problem, make_tokenizer
from buttress.measures import collapse_rate
from tests.helpers import require

pytestmark = pytest.mark.trl
TASK = LatentSkill()


@pytest.fixture(scope="module")
def shipped():
    require("transformers")
    return checkpoint.load()


@pytest.fixture(scope="module")
def problems():
    return TASK.problems(512, split="held_out", seed=0)


@pytest.fixture(scope="module")
def success_rates(shipped, problems):
    """Exact probability of the right answer, and of nothing after it, per problem."""
    import torch

    model, tokenizer = shipped
    text = [f"{problem.prompt}{problem.answer}{tokenizer.eos_token}" for problem in problems]
    rows = torch.tensor(tokenizer(text)["input_ids"])
    with torch.no_grad():
        logps = model(rows).logits[:, :-1].log_softmax(-1)
    chosen = logps.gather(-1, rows[:, 1:, None])[:, TASK.width :, 0]
    return chosen.sum(1).exp().numpy().astype(np.float64)


def test_it_is_under_a_megabyte_and_says_how_it_was_made():
    folder = checkpoint.CHECKPOINTS / "latent-skill"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1_000_000
    assert "python -m buttress.lab.warmup " in (folder / "README.md").read_text(encoding="utf-8")


def test_it_is_computed_with_in_single_precision(shipped):
    import torch

    model, tokenizer = shipped
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert 150_000 < model.num_parameters() < 250_000
    assert tokenizer.get_vocab() == make_tokenizer(TASK).get_vocab()
    assert tokenizer.padding_side == "left"
    assert model.config.pad_token_id == tokenizer.pad_token_id
    assert model.config.eos_token_id == tokenizer.eos_token_id


def test_it_starts_with_a_latent_skill_and_collapsed_groups(success_rates):
    expected_acr = ((1 - success_rates) ** 8 + success_rates**8).mean()
    assert 0.9 <= expected_acr <= 0.96
    assert 0.004 <= success_rates.mean() <= 0.02


def test_sampling_agrees_with_the_exact_probabilities(shipped, problems, success_rates):
    rewards = checkpoint.sampled_rewards(*shipped, TASK, problems, seed=1)
    assert rewards.shape == (512, 8)
    spread = math.sqrt((success_rates * (1 - success_rates)).mean() / rewards.size)
    assert abs(rewards.mean() - success_rates.mean()) < 4 * spread
    acr = ((1 - success_rates) ** 8 + success_rates**8).mean()
    found = collapse_rate(Groups.from_dense(rewards))
    assert abs(found - acr) < 4 * math.sqrt(acr * (1 - acr) / 512)
    again = checkpoint.sampled_rewards(*shipped, TASK, problems, seed=1)
    np.testing.assert_array_equal(rewards, again)


def test_greedy_answers_follow_a_wrong_rule(shipped, problems):
    model, tokenizer = shipped
    assert checkpoint.greedy_accuracy(model, tokenizer, TASK, problems).mean() < 0.02
    answers = checkpoint.completions(model, tokenizer, problems, n_tokens=TASK.width + 2)
    rules = [
        TASK.rule_of(one.prompt, answer) for one, answer in zip(problems, answers, strict=True)
    ]
    assert np.isin(rules, ["descending", "copied", "reversed"]).mean() > 0.8


def test_padding_changes_no_answer(shipped):
    model, tokenizer = shipped
    short, full = Problem("4071=", "0147"), Problem("407182=", "012478")
    together = checkpoint.completions(model, tokenizer, [short, full], n_tokens=8)
    alone = [
        checkpoint.completions(model, tokenizer, [one], n_tokens=8)[0] for one in (short, full)
    ]
    assert together == alone
