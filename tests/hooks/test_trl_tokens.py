"""Remedies that look at tokens, against a computation from plain logits."""

from __future__ import annotations

import numpy as np
import pytest

from buttress.errors import UsageError
from buttress.groups import Groups
from buttress.hooks.trl import ButtressGRPOMixin, attach
from buttress.remedies import TokenColumns, create, estimator, remedies
from buttress.remedies.token_credit import segment_ends, segments_by_entropy
from tests.helpers import require
from tests.hooks import tiny, two_ranks_tokens
from tests.hooks.token_oracle import direct_advantages

trl = require("trl")
torch = require("torch")
pytestmark = [pytest.mark.trl, *map(pytest.mark.filterwarnings, tiny.QUIET)]

# all correct + mixed; mixed + all wrong
ROWS = [[1.0] * 4 + [0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.5] + [0.0] * 4]
SCRIPT = tiny.Script(ROWS)


def run(folder, remedy, **options):
    """Train two generations; return what each rested on, and the trainer."""
    settings = {"max_steps": 2, "beta": 0.1 if remedy == "ep_grpo" else 0.0}
    trainer = tiny.trainer(folder, SCRIPT, **settings)
    seen = two_ranks_tokens.direct(attach(trainer, remedy, **options))
    trainer.train()
    assert tiny.logged(trainer, "buttress/fallback") == [0.0, 0.0]
    assert len(seen) == 2
    return seen, trainer


@pytest.mark.parametrize("name", ["rl_zvp", "ep_grpo", "edge_grpo"])
def test_advantages_are_those_of_the_estimator_alone(tmp_path, name):
    seen, _ = run(tmp_path, name)
    est = estimator(name)
    for row, part in zip(ROWS, seen, strict=True):
        want = direct_advantages(est, np.reshape(row, (2, 4)), [part])
        np.testing.assert_allclose(part["advantages"], want, atol=2e-4, rtol=2e-3)
        assert want.ndim == (1 if name == "edge_grpo" else 2)
        assert np.abs(want).max() > 0.1


@pytest.mark.parametrize("name", ["rl_zvp", "ep_grpo", "edge_grpo", "rent"])
def test_completions_that_trl_masks_have_no_tokens(tmp_path, name):
    settings = {"mask_truncated_completions": True, "max_steps": 2, "beta": 0.1}
    trainer = tiny.trainer(tmp_path, SCRIPT, **settings)
    outputs = tiny.watch(attach(trainer, name))
    trainer.train()
    assert tiny.logged(trainer, "buttress/fallback") == [0.0, 0.0]
    for output in outputs:
        hidden = output["completion_mask"].sum(1) == 0
        assert hidden.any()
        if name != "edge_grpo":
            assert (output["advantages"][hidden] == 0).all()


def test_rl_zvp_gives_tied_groups_a_signal_of_their_tokens(tmp_path):
    seen, trainer = run(tmp_path, "rl_zvp")
    assert (np.array(seen[0]["advantages"][:4])[np.array(seen[0]["mask"][:4]) > 0] > 0).all()
    assert tiny.logged(trainer, "buttress/acr") == [0.5, 0.5]
    assert tiny.logged(trainer, "buttress/acr_after") == [0.0, 0.0]


def test_the_monitor_sees_the_entropies(tmp_path):
    class Notes:
        def __init__(self):
            self.seen = []

        def update(self, groups, *, step):
            self.seen.append(groups)

    notes = Notes()
    seen, _ = run(tmp_path, "edge_grpo", monitor=notes)
    for groups, part in zip(notes.seen, seen, strict=True):
        mask = np.array(part["mask"])
        mean = (np.array(part["entropy"]) * mask).sum(1) / mask.sum(1)
        np.testing.assert_allclose(groups.columns["entropy"], mean, rtol=1e-4)


@pytest.mark.parametrize("name", ["rent", "intuitor"])
def test_internal_rewards_stand_in_for_the_trainers(tmp_path, name):
    seen, trainer = run(tmp_path, name)
    for part in seen:
        mask, entropy = np.array(part["mask"]), np.array(part["entropy"])
        per_token = -entropy if name == "rent" else np.array(part["certainty"])
        rewards = (per_token * mask).sum(1) / mask.sum(1)
        want = estimator("grpo")(Groups.from_dense(rewards.reshape(2, 4)))
        np.testing.assert_allclose(part["advantages"], want, atol=5e-3)
    assert tiny.logged(trainer, "buttress/acr") == [0.5, 0.5]
    assert tiny.logged(trainer, "reward")[0] == pytest.approx(np.mean(ROWS[0]))


def length_belief(trainer, rows, output, ends):
    """Belief that grows with the token's place: 0.1 at the first, 0.2 at the second."""
    assert len(rows) == len(ends)
    assert ends.dtype == torch.bool
    assert "prompt" in rows[0]
    width = ends.shape[1]
    return torch.arange(1, width + 1).expand(ends.shape) / 10, torch.zeros(len(ends))


def test_a_belief_of_the_users_makes_segments(tmp_path):
    seen, _ = run(tmp_path, "grpo_vps", belief=length_belief, per_segment=1)
    for row, part in zip(ROWS, seen, strict=True):
        entropy, mask = np.array(part["entropy"]), np.array(part["mask"]) > 0
        ends = segment_ends(segments_by_entropy(entropy, mask, 80.0, 1))
        belief = np.where(ends, np.arange(1, mask.shape[1] + 1) / 10, np.nan)
        columns = TokenColumns(mask, belief=belief, prior=np.zeros(8))
        want = estimator("grpo_vps", per_segment=1)(
            Groups.from_dense(np.reshape(row, (2, 4))), columns
        )
        np.testing.assert_allclose(part["advantages"], want, atol=1e-5)
        assert np.abs(want).max() > 0.1


def test_a_belief_of_another_shape_is_one_warning(tmp_path, caplog):
    trainer = tiny.trainer(tmp_path, SCRIPT, kind=tiny.recorder(), max_steps=2)
    attach(trainer, "grpo_vps", belief=lambda *args: (torch.zeros(2), torch.zeros(8)))
    trainer.train()
    assert tiny.logged(trainer, "buttress/fallback") == [1.0, 1.0]
    (warned,) = [line for line in caplog.records if line.name == "buttress.hooks"]
    assert "belief= must return shapes (8, 6) and (8,)" in warned.getMessage()


@pytest.mark.parametrize(
    ("remedy", "options", "message"),
    [
        ("ep_grpo", {}, "needs token/ref_logp: set beta in GRPOConfig above 0"),
        ("grpo_vps", {}, "needs token/belief: give belief="),
        ("rl_zvp", {"belief": length_belief}, "'rl_zvp' does not ask for it"),
        ("grpo_vps", {"belief": 3}, "belief must be a function"),
        (create("rent"), {"unparsed": 3.0}, "a Rent object has its own already"),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_what_a_remedy_lacks_is_said_at_attach(tmp_path, remedy, options, message):
    trainer = tiny.trainer(tmp_path, SCRIPT)
    with pytest.raises(UsageError, match=message):
        attach(trainer, remedy, **options)
    assert type(trainer) is trl.GRPOTrainer


def test_models_with_images_have_no_self_certainty(tmp_path):
    trainer = tiny.trainer(tmp_path, SCRIPT)
    trainer._is_vlm = True
    with pytest.raises(UsageError, match="for text alone"):
        attach(trainer, "intuitor")


def test_token_advantages_go_with_a_loss(tmp_path):
    class Mine(ButtressGRPOMixin, trl.GRPOTrainer):
        pass

    options = {"remedy": "rl_zvp", "loss": "gspo"}
    trainer = tiny.trainer(tmp_path, SCRIPT, kind=Mine, kind_options=options, max_steps=2)
    trainer.train()
    assert tiny.logged(trainer, "buttress/loss_fallback") == [0.0, 0.0]
    assert min(tiny.logged(trainer, "grad_norm")) > 0


def test_only_remedies_that_ask_cost_a_forward_pass(tmp_path):
    def passes(remedy):
        trainer = attach(tiny.trainer(tmp_path, SCRIPT, max_steps=1), remedy)
        plain, calls = trainer._get_per_token_logps_and_entropies, []

        def count(*args, **kwargs):
            calls.append(1)
            return plain(*args, **kwargs)

        trainer._get_per_token_logps_and_entropies = count
        trainer.train()
        return len(calls)

    assert passes("avspo") == 1
    assert passes("rl_zvp") == 2


def test_every_name_of_the_catalogue_is_attached_or_refused_with_the_reason(tmp_path):
    trainer = tiny.trainer(tmp_path, SCRIPT, beta=0.1)
    kind = type(trainer)
    for page in remedies():
        options = {"belief": length_belief} if page.name == "grpo_vps" else {}
        if page.kind == "sampling":
            with pytest.raises(UsageError, match="TRL's GRPOTrainer draws its prompts"):
                attach(trainer, page.name, **options)
            continue
        attach(trainer, page.name, **options)
        trainer.__class__, trainer._buttress = kind, None
