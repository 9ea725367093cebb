"""The laboratory's decoder against transformers, and its training loop."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers import require

torch = require("torch")
pytestmark = pytest.mark.filterwarnings("ignore")

from buttress.lab.credit import Credit, beliefs  # noqa: E402  after the skip
from buttress.lab.decoder import Decoder, Layout, Shape, load, save  # noqa: E402
from buttress.lab.evaluation import Problems, evaluate  # noqa: E402
from buttress.lab.policy_training import Setting, Update, train_policy  # noqa: E402
from buttress.lab.rollout import Rollouts, sample, token_logps  # noqa: E402
from buttress.remedies.losses import McpoHingeKl, PpoClip  # noqa: E402

torch.set_num_threads(1)
N, P, G, A, V = 3, 5, 4, 6, 11


@pytest.fixture(params=["llama", "qwen2", "grouped"])
def decoder(request):
    torch.manual_seed(1)
    kv_heads = 2 if request.param == "grouped" else None
    bias = request.param == "qwen2"
    model = Decoder(Shape(V, width=32, heads=4, inner=48, kv_heads=kv_heads, qkv_bias=bias))
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return model


def a_row():
    draws = torch.Generator().manual_seed(0)
    prompt = torch.randint(0, V, (N, P), generator=draws)
    answer = torch.randint(0, V, (N, G, A), generator=draws)
    return prompt, answer, torch.cat([prompt, answer.transpose(1, 2).reshape(N, A * G)], dim=1)


@pytest.mark.trl
def test_equals_transformers_and_survives_a_round_trip(decoder, tmp_path):
    transformers = require("transformers")
    save(decoder, tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    ours = load(tmp_path)
    prompt, answer, row = a_row()
    flat = torch.cat([prompt[:, None].expand(N, G, P), answer], dim=-1).reshape(N * G, P + A)
    with torch.no_grad():
        logits = ours(row, Layout.of(ours.shape, P, G, A))
        expected = theirs(flat).logits.view(N, G, P + A, V)
    behind = logits[:, P:].view(N, A, G, V).transpose(1, 2)
    torch.testing.assert_close(behind, expected[:, :, P:], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(logits[:, :P], expected[:, 0, :P], rtol=1e-4, atol=1e-4)


def test_cache_changes_nothing(decoder):
    _, _, row = a_row()
    layout = Layout.of(decoder.shape, P, G, A)
    cache = decoder.new_cache(N, P + G * A)
    with torch.no_grad():
        whole = decoder(row, layout)
        parts = [decoder(row[:, :P], layout, cache=cache)]
        for place in range(A):
            at = P + place * G
            parts.append(decoder(row[:, at : at + G], layout, cache=cache, at=at))
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=1e-4, atol=1e-4)


def test_samples_follow_the_policy(decoder):
    prompt, _, _ = a_row()
    drawn = sample(decoder, prompt[:1], 4000, 1, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        chance = decoder(prompt[:1], Layout.of(decoder.shape, P, 0, 0))[0, -1].softmax(-1)
    seen = torch.bincount(drawn.answer.flatten(), minlength=V) / 4000
    assert (seen - chance).abs().max() < 0.03


def test_logps_are_those_of_the_sampled_tokens(decoder):
    prompt, _, _ = a_row()
    drawn = sample(decoder, prompt, G, A, generator=torch.Generator().manual_seed(0))
    logp, entropy = token_logps(decoder, drawn, P)
    layout = Layout.of(decoder.shape, P, G, A)
    logits = decoder(drawn.row, layout).log_softmax(-1)
    n, g, t = 1, 2, 3
    before = logits[n, P + (t - 1) * G + g]
    torch.testing.assert_close(logp.view(N, G, A)[n, g, t], before[drawn.answer[n, g, t]])
    torch.testing.assert_close(
        entropy.view(N, G, A)[n, g, t], -(before.exp() * before).sum(), rtol=1e-4, atol=1e-4
    )
    assert not entropy.requires_grad


def test_an_answer_counts_up_to_its_end():
    problems = Problems(torch.zeros(1, 1), torch.tensor([[5, 9, 0]]), end=9)
    sampled = torch.tensor([[[5, 9, 7], [5, 9, 9], [5, 7, 9], [9, 9, 0]]])
    assert problems.right(sampled).tolist() == [[True, True, False, False]]
    written = [[True, True, False], [True, True, False], [True] * 3, [True, False, False]]
    assert problems.written(sampled)[0].tolist() == written


def test_what_stands_behind_the_end_is_not_trained_on(decoder):
    prompt, _, _ = a_row()
    drawn = sample(decoder, prompt, G, A, generator=torch.Generator().manual_seed(0))
    logp, _ = token_logps(decoder, drawn, P)
    written = Problems(prompt, drawn.answer[:, 0], end=3).written(drawn.answer).flatten(0, 1)
    assert not written.all()
    logp.retain_grad()
    none = np.zeros(N, dtype=bool)
    update = Update(drawn, logp, torch.ones(N * G), written, none, none)
    update.loss(decoder, Setting(), P).backward()
    assert (logp.grad[~written] == 0).all()
    assert (logp.grad[written] != 0).all()


def toy(n=16):
    """Copy the first digit: learnable within a few dozen steps."""
    prompt = torch.randint(0, 4, (n, 2), generator=torch.Generator().manual_seed(3))
    return Problems(prompt, prompt[:, :1])


@pytest.mark.parametrize("method", ["grpo", "posterior"])
def test_learns_a_toy_task(method):
    torch.manual_seed(0)
    model = Decoder(Shape(4, width=16, heads=2, inner=32))
    problems = toy()
    setting = Setting(method=method, steps=60, lr=1e-2, warmup=1, evaluate_every=30)
    history = train_policy(model, problems, problems, setting)
    assert history.evaluations[0]["pass@1"] < 0.5
    assert history.evaluations[-1]["pass@1"] > 0.8
    assert [round(one["step"]) for one in history.evaluations] == [0, 30, 60]
    assert history.steps["rollouts"][-1] == 60 * 64


def test_same_seed_same_run_and_equal_rollouts_when_resampling():
    finals = []
    for resample in (1, 1, 3):
        torch.manual_seed(0)
        model = Decoder(Shape(4, width=16, heads=2, inner=32))
        setting = Setting(steps=10, prompts=4, group=4, lr=1e-2, resample=resample, seed=5)
        history = train_policy(model, toy(), toy(), setting)
        finals.append(history.evaluations[-1]["pass@1"])
        assert 160 <= history.steps["rollouts"][-1] < 160 + 3 * 16
    assert finals[0] == finals[1]
    assert len(history.steps["acr"]) < 10


def test_controls():
    torch.manual_seed(0)
    model = Decoder(Shape(4, width=16, heads=2, inner=32))
    from buttress.groups import Groups
    from buttress.remedies import estimator

    groups = Groups.from_nested([[1, 0, 0, 0], [0, 0, 0, 0]])
    advantages = np.array([3.0, -1, -1, -1, -0.5, -0.5, -0.5, -0.5])
    tied = np.array([False, True])

    def controlled(control):
        credit = Credit(model, Setting(control=control, seed=1))
        return credit.controlled(advantages, groups, tied)

    assert np.array_equal(controlled("none"), advantages)
    turned = controlled("random_sign_tied")
    assert np.array_equal(turned[:4], advantages[:4])
    assert np.array_equal(np.abs(turned), np.abs(advantages))
    norm = np.linalg.norm(estimator("grpo")(groups))
    assert np.linalg.norm(controlled("grpo_norm")) == pytest.approx(norm)


@pytest.mark.trl
def test_tiers_start_where_they_say():
    from buttress.lab.starts import STARTS, problem_sets, starting_point

    tier = STARTS["acr80"]
    model = starting_point(tier)
    _, held_out = problem_sets(tier, 0)
    drawn = sample(model, held_out.prompt, 8, 6, generator=torch.Generator().manual_seed(0))
    wins = (drawn.answer == held_out.answer[:, None]).all(-1).sum(-1)
    acr = float(((wins == 0) | (wins == 8)).double().mean())
    assert acr == pytest.approx(tier.acr, abs=0.08)
    assert set(evaluate(model, held_out.select(np.arange(20)), seed=0)) == {
        "greedy",
        "pass@1",
        "pass@4",
        "pass@16",
    }


def test_frozen_weights_stay_and_bf16_learns():
    torch.manual_seed(0)
    model = Decoder(Shape(4, width=16, heads=2, inner=32))
    model.layers[0].requires_grad_(False)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    setting = Setting(steps=60, lr=1e-2, warmup=1, evaluate_every=60, bf16=True)
    evaluations = train_policy(model, toy(), toy(), setting).evaluations
    assert evaluations[-1]["pass@1"] > 0.8
    for name, weight in model.named_parameters():
        assert torch.equal(weight, before[name]) == name.startswith("layers.0.")
        assert weight.dtype == torch.float32


def trained(**options):
    torch.manual_seed(0)
    model = Decoder(Shape(4, width=16, heads=2, inner=32))
    setting = Setting(steps=60, lr=1e-2, warmup=1, evaluate_every=60, **options)
    return train_policy(model, toy(), toy(), setting)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "grpo_vps"},
        {"method": "ep_grpo"},
        {"method": "rl_zvp"},
        {"method": "mcpo", "loss": McpoHingeKl(), "updates": 4},
        {"loss": PpoClip(beta=0.01)},
        {"jitter": 1e-3, "method": "maxnorm_ac"},
    ],
    ids=lambda options: "-".join(map(str, options)),
)
def test_every_kind_of_remedy_learns(options):
    evaluations = trained(**options).evaluations
    assert evaluations[-1]["pass@1"] > evaluations[0]["pass@1"] + 0.3


@pytest.mark.parametrize("reward", ["intuitor", "rent"])
def test_an_internal_reward_raises_certainty_without_the_answers(reward):
    torch.manual_seed(0)
    model = Decoder(Shape(4, width=16, heads=2, inner=32))
    problems = Problems(toy().prompt, toy().prompt)  # one token alone has one certainty per group
    setting = Setting(reward=reward, steps=60, lr=1e-2, warmup=1, evaluate_every=60)
    history = train_policy(model, problems, problems, setting)
    assert history.steps["entropy"][-1] < 0.5 * history.steps["entropy"][0]
    assert np.mean(history.steps["reward"][-5:]) > np.mean(history.steps["reward"][:5])


def test_a_noisy_verifier_spoils_rewards_not_verdicts():
    turned = trained(flip=0.5)
    assert np.mean(turned.steps["reward"]) == pytest.approx(0.5, abs=0.05)
    assert np.mean(turned.steps["correct"]) < 0.4


def test_beliefs_are_the_value_of_each_prefix(decoder):
    prompt, _, _ = a_row()
    answer = torch.randint(0, V, (N, 2), generator=torch.Generator().manual_seed(7))
    batch = Problems(prompt, answer)
    drawn = torch.randint(0, V, (N, 40, 2), generator=torch.Generator().manual_seed(8))
    drawn[0, 0] = answer[0]
    drawn[1, 0, 0] = answer[1, 0]
    row = torch.cat([prompt, drawn.transpose(1, 2).flatten(1)], dim=1)
    prior, after = beliefs(decoder, batch, Rollouts(row, drawn))
    with torch.no_grad():
        chance = decoder(
            torch.cat([prompt, answer], dim=1), Layout.of(decoder.shape, P + 2, 0, 0)
        ).softmax(-1)
    first = chance[0, P - 1, answer[0, 0]].item()
    second = chance[0, P, answer[0, 1]].item()
    assert prior[0] == pytest.approx(first * second, rel=1e-4)
    assert after[0] == pytest.approx([second, 1.0], rel=1e-4)
    partly = after.reshape(N, 40, 2)[1, 0]
    assert partly[0] > 0
    assert partly[1] == float(drawn[1, 0, 1] == answer[1, 1])


def test_shares_of_a_batch_have_the_gradient_of_the_whole(decoder):
    prompt, _, _ = a_row()
    drawn = sample(decoder, prompt, G, A, generator=torch.Generator().manual_seed(0))
    logp, _ = token_logps(decoder, drawn, P)
    advantages = torch.randn(N * G, generator=torch.Generator().manual_seed(1))
    tied = np.zeros(N, dtype=bool)

    def gradient(logp, n):
        decoder.zero_grad()
        update = Update(drawn, logp, advantages, torch.ones_like(logp), tied, tied)
        for share in update.shares(n):
            (share.loss(decoder, Setting(), P) / n).backward()
        return torch.cat([weight.grad.flatten() for weight in decoder.parameters()])

    whole = gradient(logp, 1)
    torch.testing.assert_close(gradient(logp.detach(), N), whole, rtol=1e-3, atol=1e-5)
