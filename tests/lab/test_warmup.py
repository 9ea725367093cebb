"""The command that makes the checkpoint."""

import sys

import pytest

from buttress.lab import checkpoint, warmup
from tests.helpers import require

pytestmark = pytest.mark.trl


@pytest.fixture
def made(monkeypatch, tmp_path):
    """Return a function that runs the command with a few small batches."""
    require("transformers")

    def make(name, *further):
        arguments = [str(tmp_path / name), "--steps", "3", "--batch", "4", *further]
        monkeypatch.setattr(sys, "argv", ["warmup", *arguments])
        warmup.main()
        return tmp_path / name

    return make


def test_it_writes_a_checkpoint_and_its_own_command(made, capsys):
    import torch

    one, same, other = made("one"), made("same"), made("other", "--seed", "1")
    readme = (one / "README.md").read_text(encoding="utf-8")
    assert f"python -m buttress.lab.warmup {one} --steps 3 --batch 4\n" in readme
    assert readme in capsys.readouterr().out
    weights = [checkpoint.load(path)[0].state_dict() for path in (one, same, other)]
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name])
    assert any(not torch.equal(value, weights[2][name]) for name, value in weights[0].items())


def test_fitting_lowers_the_loss_on_the_answers_alone():
    torch = pytest.importorskip("torch")
    require("transformers")
    from buttress.lab.tasks import LatentSkill, make_tokenizer

    torch.manual_seed(0)
    task = LatentSkill()
    tokenizer = make_tokenizer(task)
    model = warmup.new_model(len(tokenizer))
    lines = task.demonstrations(64, seed=9)
    rows = torch.tensor(
        tokenizer([f"{x.prompt}{x.answer}{tokenizer.eos_token}" for x in lines])["input_ids"]
    )

    def losses():
        with torch.no_grad():
            logps = model(rows).logits[:, :-1].log_softmax(-1)
        found = -logps.gather(-1, rows[:, 1:, None])[..., 0]
        return found[:, : task.width].mean().item(), found[:, task.width :].mean().item()

    prompt, answer = losses()
    warmup.fit(model, tokenizer, task, warmup.Warmup(steps=40, batch=32, rate=3e-3))
    fitted_prompt, fitted_answer = losses()
    assert fitted_answer < answer - 0.3
    assert fitted_prompt > prompt - 0.3


@pytest.mark.parametrize("steps", [1, 50, 2500])
def test_rate_rises_then_falls_to_its_floor(steps):
    rates = [warmup._rate_at(step, steps) for step in range(steps)]
    assert all(0 < rate <= 1 for rate in rates)
    if steps > 200:
        assert rates[:100] == sorted(rates[:100])
        assert rates[100:] == sorted(rates[100:], reverse=True)
        assert rates[-1] == pytest.approx(0.02, abs=1e-3)
