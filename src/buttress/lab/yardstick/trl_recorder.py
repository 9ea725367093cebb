"""Record short runs of TRL's GRPOTrainer: completions of many lengths, and a real length cap.

The model is random and tiny. Its task is to write the last digit of a sum somewhere and to end: the
random model does so half of the time, and it learns to do it more often.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from buttress.lab.yardstick.recording import Recording

CAP, GROUP, PROMPTS = 48, 8, 8
_SYMBOLS = "0123456789+= abcdefghijklmnopqrstuvwxyz"
_KEPT = ("loss", "grad_norm", "learning_rate", "entropy", "kl")


@dataclass(frozen=True)
class TrlPlan:
    """One run of TRL to record."""

    seed: int = 0
    lr: float = 3e-3
    steps: int = 32
    sums: int = 60


TRL_PLANS = {"trl_learns": TrlPlan(), "trl_slow": TrlPlan(seed=1, lr=5e-4, sums=24)}


def record_trl(name: str) -> Recording:
    """Train one plan and return its recording."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    plan, rows = TRL_PLANS[name], []
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(plan, folder, _noting(rows))
        trainer.train()
    lines = [line for line in trainer.state.log_history if "loss" in line]
    steps = np.array([row[0] for row in rows[::GROUP]])
    shape = (len(steps), GROUP)
    column = [np.array([row[at] for row in rows], dtype=object) for at in range(1, 6)]
    prompts, answers, texts, lengths, ended = (one.reshape(shape) for one in column)
    return Recording(
        name,
        "grpo",
        "contains",
        CAP,
        steps,
        prompts[:, 0],
        answers[:, 0],
        texts,
        lengths.astype(np.int64),
        ended.astype(bool),
        {key: np.array([line[key] for line in lines]) for key in _KEPT if key in lines[0]},
    )


def _noting(rows: list[tuple[Any, ...]]) -> Callable[..., list[float | None]]:
    """Return the reward function of the task, which notes what it grades."""

    def accuracy_reward(
        prompts: Any,
        completions: Any,
        completion_ids: Any,
        answer: Any,
        trainer_state: Any,
        **_: Any,
    ) -> list[float | None]:
        found: list[float | None] = []
        for prompt, text, ids, right in zip(
            prompts, completions, completion_ids, answer, strict=True
        ):
            ended = len(ids) < CAP or ids[-1] == 1
            found.append(float(ended and right in text))
            step = trainer_state.global_step + 1
            rows.append((step, prompt, right, text, len(ids), ended))
        return found

    return accuracy_reward


def _trainer(plan: TrlPlan, folder: str, reward: Callable[..., list[float | None]]) -> Any:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    draws = np.random.default_rng(plan.seed)
    pairs = draws.integers(0, 50, size=(plan.sums, 2)).tolist()
    data = Dataset.from_list([{"prompt": f"{a}+{b}=", "answer": str(a + b)[-1]} for a, b in pairs])
    config = GRPOConfig(
        output_dir=folder,
        per_device_train_batch_size=GROUP * PROMPTS,
        num_generations=GROUP,
        max_completion_length=CAP,
        max_steps=plan.steps,
        learning_rate=plan.lr,
        beta=0.02,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
        seed=plan.seed,
    )
    tokens = _tokenizer()
    model = _model(len(tokens), plan.seed)
    place = f"{folder}/policy"
    model.save_pretrained(place)  # where TRL finds the reference of its KL term
    model.config._name_or_path = place
    return GRPOTrainer(
        model=model, reward_funcs=reward, args=config, train_dataset=data, processing_class=tokens
    )


def _tokenizer() -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    ids = {token: at for at, token in enumerate(["<pad>", "<eos>", "<unk>", *_SYMBOLS])}
    backend = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(""), behavior="isolated")
    backend.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )


def _model(symbols: int, seed: int) -> Any:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=symbols,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=128,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=None,
        )
    )
