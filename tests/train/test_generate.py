"""Sampling: the distribution of the model, whatever its generation_config says, and its ends."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import buttress
from buttress.errors import MissingExtraError, UsageError
from buttress.train.generation import generate
from buttress.train.generation.generate import TransformersSampler, sampler_for
from buttress.train.generation.sampling import Completion, Sampling
from buttress.train.problems.asking import Asking
from tests.helpers import require

require("transformers")
torch = require("torch")
pytestmark = pytest.mark.filterwarnings("ignore")

PROMPTS = ["407182=", "123456=", "998001="]
CHECKPOINT = Path(buttress.__file__).parent / "lab" / "checkpoints" / "latent-skill"


@pytest.fixture(scope="module")
def sampler():
    return sampler_for("latent-skill", Sampling(max_tokens=8), batch_size=8)


@pytest.fixture(scope="module")
def greedy():
    return sampler_for("latent-skill", Sampling(temperature=0, max_tokens=8))


def test_greedy_answers_are_those_of_the_laboratory(greedy):
    from buttress.lab.checkpoint import completions, load
    from buttress.lab.tasks import LatentSkill

    problems = LatentSkill().problems(20, split="held_out", seed=2)
    known = completions(*load(), problems, n_tokens=8)
    found = greedy.sample([one.prompt for one in problems], 1, 0)
    assert [one.text for [one] in found] == known
    assert all(one.length == 7 and not one.truncated for [one] in found)


def test_equal_arguments_give_equal_completions(sampler):
    first = sampler.sample(PROMPTS, 5, 3)
    torch.manual_seed(99)
    again = TransformersSampler("latent-skill", Sampling(max_tokens=8), batch_size=8)
    assert again.sample(PROMPTS, 5, 3) == first
    assert sampler.sample(PROMPTS, 5, 4) != first
    assert [len(one) for one in first] == [5, 5, 5]


def test_sampling_leaves_the_generator_of_others_alone(sampler):
    torch.manual_seed(0)
    expected = torch.rand(2)
    torch.manual_seed(0)
    sampler.sample(PROMPTS, 2, 1)
    assert torch.equal(torch.rand(2), expected)


def test_more_completions_than_a_batch_are_all_different_draws(sampler):
    [found] = sampler.sample(PROMPTS[:1], 20, 0)
    assert len(found) == 20
    # one seed for all parts would repeat the first eight
    assert [one.text for one in found[:8]] != [one.text for one in found[8:16]]


def test_tokens_come_from_the_whole_distribution_whatever_the_config_says(tmp_path):
    folder = Path(shutil.copytree(CHECKPOINT, tmp_path / "model"))
    config = json.loads((folder / "generation_config.json").read_text())
    config |= {"do_sample": True, "top_k": 1, "temperature": 0.01, "repetition_penalty": 5.0}
    (folder / "generation_config.json").write_text(json.dumps(config))
    made = sampler_for(str(folder), Sampling(temperature=2.0, max_tokens=1), batch_size=4000)
    [drawn] = made.sample(PROMPTS[:1], 4000, 0)
    inputs = made.tokenizer(PROMPTS[:1], return_tensors="pt")
    with torch.no_grad():
        logits = made._model(input_ids=inputs["input_ids"]).logits[0, -1].double() / 2.0
    chance = torch.softmax(logits, -1).numpy()
    counts = np.zeros(len(chance))
    for one in drawn:
        # the end and the padding have no text
        counts[made.tokenizer.convert_tokens_to_ids(one.text) if one.text else 0] += 1
    silent = [made.tokenizer.convert_tokens_to_ids(token) for token in ("<pad>", "<end>", "<unk>")]
    merged = np.append(np.delete(chance, silent), chance[silent].sum())
    seen = np.append(np.delete(counts, silent), counts[silent].sum())
    common = merged > 5 / 4000
    observed = np.append(seen[common], seen[~common].sum())
    expected = np.append(merged[common], merged[~common].sum()) * 4000
    assert stats.chisquare(observed + 1e-9, expected + 1e-9, sum_check=False).pvalue > 1e-4


def test_a_cap_is_said_and_an_end_is_not_a_cap():
    short = sampler_for("latent-skill", Sampling(temperature=0, max_tokens=3))
    assert [one for [one] in short.sample(PROMPTS[:1], 1, 0)] == [Completion("874", 3, True)]
    exact = sampler_for("latent-skill", Sampling(temperature=0, max_tokens=7))
    assert [one for [one] in exact.sample(PROMPTS[:1], 1, 0)] == [Completion("874210", 7, False)]


def test_a_stop_text_ends_a_completion_before_it():
    stopped = sampler_for("latent-skill", Sampling(temperature=0, max_tokens=8, stop=("42",)))
    [[one], [other]] = stopped.sample(PROMPTS[:2], 1, 0)
    assert (one.text, one.truncated) == ("87", False)
    assert other.text == "654321"


def test_a_prompt_beyond_the_context_has_no_completions(greedy):
    full, nearly, usual = greedy.sample(["1" * 64, "1" * 62, PROMPTS[0]], 1, 0)
    assert full == []
    assert nearly[0].length <= 2
    assert usual[0].length <= 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"temperature": -1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 0}, "top-p"),
        ({"top_k": -1}, "top-k"),
        ({"max_tokens": 0}, "max-tokens"),
    ],
)
def test_sampling_out_of_range_is_said(wrong, said):
    with pytest.raises(UsageError, match=said):
        Sampling(**wrong)


def test_an_unknown_engine_is_said():
    with pytest.raises(UsageError, match="Did you mean 'vllm'"):
        sampler_for("latent-skill", Sampling(), engine="vlm")


def test_vllm_that_is_not_there_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingExtraError, match="pip install vllm"):
        sampler_for("latent-skill", Sampling(), engine="vllm")


def test_vllm_is_asked_for_the_same(monkeypatch):
    """A stand-in for vLLM, which needs a GPU: it shows what it is asked, not what it does."""
    asked = {}

    class LLM:
        def __init__(self, **settings):
            asked["model"] = settings

        llm_engine = SimpleNamespace(model_config=SimpleNamespace(max_model_len=5))

        def get_tokenizer(self):
            class Letters:
                bos_token = "<s>"

                def __call__(self, text):
                    return {"input_ids": list(text)}

            return Letters()

        def generate(self, prompts, params, use_tqdm):
            asked["prompts"], asked["params"] = prompts, params
            one = SimpleNamespace(text="4", token_ids=[1, 2], finish_reason="length")
            return [SimpleNamespace(outputs=[one] * params[0].n) for _ in prompts]

    fake = ModuleType("vllm")
    fake.LLM, fake.SamplingParams = LLM, lambda **settings: SimpleNamespace(**settings)
    monkeypatch.setitem(sys.modules, "vllm", fake)
    made = sampler_for("latent-skill", Sampling(0.7, 0.9, 5, 12, ("x",)), engine="vllm")
    found = made.sample(["<s>a", "too long", "b"], 3, 1)
    three = [Completion("4", 2, True)] * 3
    assert found == [three, [], three]
    assert asked["prompts"] == ["a", "b"]
    assert asked["model"]["model"] == str(CHECKPOINT)
    first, second = asked["params"]
    assert (first.n, first.temperature, first.top_p, first.top_k) == (3, 0.7, 0.9, 5)
    assert (first.max_tokens, first.stop) == (12, ["x"])
    assert first.seed != second.seed


def chat_tokenizer():
    return SimpleNamespace(
        chat_template="t",
        apply_chat_template=lambda messages, **options: "|".join(
            f"{one['role']}:{one['content']}" for one in messages
        ),
    )


@pytest.mark.parametrize(
    ("asking", "asked", "text"),
    [
        (Asking(), "1+1?", "user:1+1?"),
        (Asking("Q {prompt} A"), "1+1?", "user:Q 1+1? A"),
        (Asking(system="Add."), "1+1?", "system:Add.|user:1+1?"),
        (Asking("no {prompt}"), [{"role": "user", "content": "hi"}], "user:hi"),
        (Asking(chat=False, system="Add."), "1+1?", "Add.\n1+1?"),
    ],
)
def test_problems_are_put_in_messages_where_the_model_chats(asking, asked, text):
    tokenizer = chat_tokenizer()
    assert asking.text(asking.prompt({"prompt": asked}, tokenizer), tokenizer) == text


def test_problems_are_put_as_text_where_it_does_not(sampler):
    asking = Asking("Q {prompt}", system="Add.")
    messages = [{"role": "user", "content": "1+1?"}]
    assert asking.prompt({"prompt": messages}, sampler.tokenizer) == "Add.\nQ 1+1?"
    with pytest.raises(UsageError, match="no chat template"):
        asking.text(messages, sampler.tokenizer)
    with pytest.raises(UsageError, match=r"\{prompt\}"):
        Asking("no place")


def test_the_engine_is_transformers_without_a_gpu(monkeypatch):
    monkeypatch.setattr(generate, "find_spec", lambda name: object())
    monkeypatch.setattr(generate, "default_device", lambda: "cpu")
    assert generate.engine_of("latent-skill", "auto") == "transformers"
    monkeypatch.setattr(generate, "default_device", lambda: "cuda:0")
    assert generate.engine_of("latent-skill", "auto") == "vllm"
    assert generate.engine_of("latent-skill", "transformers") == "transformers"
