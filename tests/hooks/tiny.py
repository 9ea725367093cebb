"""A GRPOTrainer that runs on a CPU in a second: random two-layer Qwen2, character tokenizer."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

ALPHABET = "0123456789+-*= abcdefghijklmnopqrstuvwxyz"
PROMPTS = tuple(f"{a}+{b}=" for a in range(4) for b in range(4))

# Third-party noise; warnings of our own stay errors.
QUIET = [
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
    "ignore::UserWarning",
    "ignore::ResourceWarning",
]


def tokenizer() -> Any:
    """Return a tokenizer with one token per character."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: at for at, token in enumerate(["<pad>", "<eos>", "<unk>", *ALPHABET])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(""), behavior="isolated")
    backend.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )


def model(tokens: Any) -> Any:
    """Return a random model over these tokens."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokens),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
            pad_token_id=tokens.pad_token_id,
            eos_token_id=tokens.eos_token_id,
            bos_token_id=None,
        )
    )


def trainer(
    folder: Path | str,
    rewards: Callable[..., Any] | Sequence[Callable[..., Any]],
    *,
    kind: Any = None,
    kind_options: dict[str, Any] | None = None,
    prompts: Sequence[str] = PROMPTS,
    **settings: Any,
) -> Any:
    """Return a trainer of 3 steps, each of 2 groups of 4 completions of up to 6 tokens.

    `kind` is the class (`GRPOTrainer` by default), `settings` go to `GRPOConfig`.
    """
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    defaults: dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 8,
        "per_device_eval_batch_size": 8,
        "num_generations": 4,
        "max_completion_length": 6,
        "max_steps": 3,
        "learning_rate": 1e-3,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
        "seed": 7,
    }
    tokens = tokenizer()
    network = model(tokens)
    if settings.get("beta"):
        _save_policy(network, Path(folder) / "policy")
    data = Dataset.from_list([{"prompt": prompt} for prompt in prompts])
    return (kind or GRPOTrainer)(
        model=network,
        reward_funcs=rewards if callable(rewards) else list(rewards),
        args=GRPOConfig(**(defaults | settings)),
        train_dataset=data,
        eval_dataset=data,
        processing_class=tokens,
        **(kind_options or {}),
    )


def _save_policy(network: Any, place: Path) -> None:
    """Save the model where TRL will load the reference model from."""
    from torch import distributed

    network.save_pretrained(place)
    network.config._name_or_path = str(place)
    if distributed.is_available() and distributed.is_initialized():
        distributed.barrier()  # only the first rank writes


class Script:
    """A reward function that reads from a table: rewards depend on step and global row alone.

    Row i of step s gets ``table[s][i]``; None stays None. So runs on one rank and on two see the
    same rewards, whatever their models write.
    """

    def __init__(self, table: Sequence[Sequence[float | None]], name: str = "script") -> None:
        self.table = table
        self.__name__ = name

    def __call__(self, completions: Any, trainer_state: Any, **kwargs: Any) -> list[float | None]:
        row = self.table[trainer_state.global_step % len(self.table)]
        start = int(os.environ.get("RANK", "0")) * len(completions)
        return list(row[start : start + len(completions)])


def recorder() -> Any:
    """Return a subclass of GRPOTrainer that keeps TRL's own advantages and rewards in `own`."""
    from trl import GRPOTrainer

    class Recorder(GRPOTrainer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.own: list[Any] = []
            self.matrices: list[Any] = []

        def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Any:
            matrix = super()._calculate_rewards(*args, **kwargs)
            self.matrices.append(matrix.clone())
            return matrix

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            output = super()._generate_and_score_completions(inputs)
            self.own.append(output["advantages"].clone())
            return output

    return Recorder


def watch(trainer: Any) -> list[dict[str, Any]]:
    """Return a list that will hold what every generation hands to the training."""
    outputs: list[dict[str, Any]] = []
    generate = trainer._generate_and_score_completions

    def generate_and_keep(inputs: Any) -> Any:
        output = generate(inputs)
        outputs.append(dict(output))
        return output

    trainer._generate_and_score_completions = generate_and_keep
    return outputs


def logged(trainer: Any, name: str) -> list[Any]:
    """Return a metric of every log line that has it."""
    return [line[name] for line in trainer.state.log_history if name in line]


def table(seed: int, n_steps: int, n_rows: int, *, missing: float = 0.0) -> list[list[Any]]:
    """Return random rewards for `Script`; about every second group of 4 is tied."""
    import random

    draw = random.Random(seed)
    steps = []
    for _ in range(n_steps):
        row: list[Any] = []
        for _ in range(n_rows // 4):
            level = draw.choice([0.0, 1.0, 0.7])
            tied = draw.random() < 0.5
            row += [level if tied else draw.choice([0.0, 0.5, 1.0]) for _ in range(4)]
        steps.append([None if draw.random() < missing else reward for reward in row])
    return steps
