"""Write the TRL fixtures of this folder with the real GRPOTrainer, on the CPU, in about a minute.

    python tests/logs/data/make_trl.py

Needs torch and trl. The model is random and tiny: its rewards mean nothing, its files are what
TRL writes. README.md says what each folder holds.
"""

from __future__ import annotations

import os

os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

HERE = Path(__file__).parent
SYMBOLS = ["<pad>", "<eos>", *"0123456789+=yes"]
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


def text(completion: Any) -> str:
    """Return the words of a completion, plain or conversational."""
    return completion if isinstance(completion, str) else completion[-1]["content"]


def accuracy_reward(completions: list[Any], answer: list[str], **_: Any) -> list[float]:
    """1 where the last digit of the answer occurs."""
    return [float(a[-1] in text(c)) for c, a in zip(completions, answer, strict=True)]


def brevity_reward(completions: list[Any], **_: Any) -> list[float]:
    """1 for at most four symbols."""
    return [float(len(text(c)) <= 4) for c in completions]


def constant_reward(completions: list[Any], **_: Any) -> list[float]:
    """2.1, which float32 cannot hold."""
    return [2.1] * len(completions)


def sparse_accuracy_reward(
    completions: list[Any], answer: list[str], log_extra: Callable[..., None], **_: Any
) -> list[float | None]:
    """As `accuracy_reward`, but None where the completion has no digit; logs two extra columns."""
    digits = [sum(symbol.isdigit() for symbol in text(c)) for c in completions]
    log_extra("digits", digits)
    log_extra("answer", answer)
    scores = accuracy_reward(completions, answer)
    return [score if n else None for score, n in zip(scores, digits, strict=True)]


def sparse_brevity_reward(completions: list[Any], **_: Any) -> list[float | None]:
    """As `brevity_reward`, but None where the completion has no digit or begins with 1."""
    scored = zip(completions, brevity_reward(completions), strict=True)
    digit = [any(symbol.isdigit() for symbol in text(c)) for c in completions]
    return [s if d and text(c)[0] != "1" else None for d, (c, s) in zip(digit, scored, strict=True)]


def main() -> None:
    """Write every fixture."""
    both = [accuracy_reward, brevity_reward]
    write("plain", both, weights=[1.0, 0.25], max_steps=6)
    write("every_second", both, weights=[1.0, 0.25], max_steps=6, logging_steps=2)
    write("rewritten", both, max_steps=6, steps_per_generation=2)
    write("constant", [constant_reward], max_steps=2, num_generations=8)
    sparse = [sparse_accuracy_reward, sparse_brevity_reward]
    write("null_rewards", sparse, weights=[1.0, 0.5], max_steps=4, chat=True)
    evaluation = {"eval_strategy": "steps", "eval_steps": 3, "per_device_eval_batch_size": 4}
    write("evaluated", both, max_steps=6, steps_per_generation=2, n_eval=1, **evaluation)


def write(
    name: str,
    rewards: list[Callable[..., Any]],
    *,
    weights: list[float] | None = None,
    chat: bool = False,
    n_eval: int = 0,
    **options: Any,
) -> None:
    """Train for a few steps and keep the completions and the last trainer state."""
    defaults = {"num_generations": 4, "logging_steps": 1, "steps_per_generation": 1}
    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=8,
            max_completion_length=6,
            learning_rate=1e-2,
            temperature=1.0,
            log_completions=True,
            num_completions_to_print=0,
            reward_weights=weights,
            save_strategy="steps",
            save_steps=options["max_steps"],
            report_to="none",
            use_cpu=True,
            bf16=False,
            disable_tqdm=True,
            seed=3,
            **(defaults | options),
        )
        trainer = GRPOTrainer(
            model=tiny_model(),
            reward_funcs=rewards,
            args=config,
            train_dataset=sums(range(12), chat),
            eval_dataset=sums(range(90, 90 + n_eval), chat) if n_eval else None,
            processing_class=tokenizer(),
        )
        trainer.train()
        keep(Path(folder), HERE / f"trl_{name}")


def keep(source: Path, target: Path) -> None:
    """Copy the two kinds of files that the reader knows."""
    shutil.rmtree(target, ignore_errors=True)
    for pattern in ("completions/*.parquet", "checkpoint-*/trainer_state.json"):
        for path in sorted(source.glob(pattern)):
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def sums(numbers: range, chat: bool) -> Dataset:
    """Return little sums with their answers."""
    rows = [(f"{n}+{n % 3}=", str(n + n % 3)) for n in numbers]
    prompts = [[{"role": "user", "content": p}] if chat else p for p, _ in rows]
    return Dataset.from_dict({"prompt": prompts, "answer": [a for _, a in rows]})


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer of single characters."""
    one = Tokenizer(models.WordLevel({s: i for i, s in enumerate(SYMBOLS)}, unk_token="<pad>"))
    one.pre_tokenizer = pre_tokenizers.Split(Regex(""), "isolated")
    one.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(tokenizer_object=one, pad_token="<pad>", eos_token="<eos>")
    fast.chat_template = TEMPLATE
    return fast


def tiny_model() -> Qwen2ForCausalLM:
    """Return a random model with some ten thousand parameters."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(SYMBOLS),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=0,
    )
    return Qwen2ForCausalLM(config)


if __name__ == "__main__":
    main()
