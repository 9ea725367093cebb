"""Make the shipped checkpoint: ``python -m buttress.lab.warmup OUT``.

A decoder of 0.2 million parameters is fitted to the warm-up corpus of a task: cross-entropy on the
answer and its end, one pass over fresh demonstrations, AdamW with a cosine schedule. One thread and
one seed, so the same machine and versions give the same weights.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buttress.errors import MissingExtraError
from buttress.groups import Groups
from buttress.lab import checkpoint
from buttress.lab.tasks import LatentSkill, make_tokenizer
from buttress.measures import collapse_rate

README = """\
# latent-skill

A decoder of {parameters:,} parameters ({architecture}, float16) for the task `latent-skill` of
`buttress.lab.tasks`: it knows how to sort six digits and does so in about one answer in a hundred.

Made by

    {command}

in {seconds:.0f} s of one CPU core's time (torch {torch}, transformers {transformers}). On
{problems} held-out problems, groups of 8 at temperature 1: pass rate {pass_rate:.4f}, ACR
{acr:.3f}; greedy accuracy {greedy:.3f}.
"""


@dataclass(frozen=True)
class Warmup:
    """How long and how fast: `steps` batches of `batch` demonstrations at peak rate `rate`."""

    steps: int = 2000
    batch: int = 128
    rate: float = 1e-3
    seed: int = 0


def new_model(n_symbols: int) -> Any:
    """Return the untrained decoder: two layers of width 96, four heads, tied embeddings."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = LlamaConfig(
        vocab_size=n_symbols,
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
    )
    return AutoModelForCausalLM.from_config(config)


def fit(model: Any, tokenizer: Any, task: LatentSkill, warmup: Warmup) -> None:
    """Fit a model to the warm-up corpus of a task, in place."""
    import torch

    optimizer = torch.optim.AdamW(
        model.parameters(), lr=warmup.rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: _rate_at(step, warmup.steps)
    )
    model.train()
    for rows in _batches(tokenizer, task, warmup):
        targets = rows.clone()
        targets[:, : task.width + 1] = -100  # the prompt is given, not learned
        loss = model(input_ids=rows, labels=targets).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()


def make(task: LatentSkill, out: Path, warmup: Warmup) -> str:
    """Fit, save and measure a checkpoint; return the text of its README."""
    import torch
    import transformers

    torch.set_num_threads(1)
    torch.manual_seed(warmup.seed)
    started = time.process_time()
    tokenizer = make_tokenizer(task)
    model = new_model(len(tokenizer))
    fit(model, tokenizer, task, warmup)
    seconds = time.process_time() - started
    model.half().save_pretrained(out)
    tokenizer.save_pretrained(out)

    model, tokenizer = checkpoint.load(out)  # what is measured is what is shipped
    problems = task.problems(512, split="held_out", seed=0)
    rewards = checkpoint.sampled_rewards(model, tokenizer, task, problems)
    text = README.format(
        parameters=model.num_parameters(),
        architecture=type(model).__name__.removesuffix("ForCausalLM"),
        command=" ".join(["python -m buttress.lab.warmup", *sys.argv[1:]]),
        seconds=seconds,
        torch=torch.__version__,
        transformers=transformers.__version__,
        problems=len(problems),
        pass_rate=rewards.mean(),
        acr=collapse_rate(Groups.from_dense(rewards)),
        greedy=checkpoint.greedy_accuracy(model, tokenizer, task, problems).mean(),
    )
    (out / "README.md").write_text(text, encoding="utf-8")
    return text


def main() -> None:
    """Parse the command line, make the checkpoint, print what it is like."""
    parser = argparse.ArgumentParser(prog="python -m buttress.lab.warmup", description=__doc__)
    parser.add_argument("out", type=Path, help="directory of the checkpoint")
    for name, default in vars(Warmup()).items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    arguments = parser.parse_args()
    warmup = Warmup(**{name: getattr(arguments, name) for name in vars(Warmup())})
    try:
        sys.stdout.write(make(LatentSkill(), arguments.out, warmup))
    except MissingExtraError as fault:
        parser.exit(2, f"buttress: {fault}\n")


def _batches(tokenizer: Any, task: LatentSkill, warmup: Warmup) -> Iterator[Any]:
    import torch
    from rich.console import Console
    from rich.progress import track

    corpus = task.demonstrations(warmup.steps * warmup.batch, seed=warmup.seed)
    text = [f"{line.prompt}{line.answer}{tokenizer.eos_token}" for line in corpus]
    rows = torch.tensor(tokenizer(text)["input_ids"])
    yield from track(
        rows.split(warmup.batch),
        description="warm-up",
        console=Console(stderr=True),
        transient=True,
    )


def _rate_at(step: int, steps: int, ramp: int = 100, floor: float = 0.02) -> float:
    cosine = 0.5 * (1 + math.cos(math.pi * step / steps))
    return min(1.0, (step + 1) / ramp) * (floor + (1 - floor) * cosine)


if __name__ == "__main__":
    main()
