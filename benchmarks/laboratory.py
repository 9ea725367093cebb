"""A training step of the laboratory beside TRL's, and beside its floating-point operations."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median

from benchmarks.timing import Row

STEPS = 25
SKIPPED = 5  # warm-up


def rows() -> list[Row]:
    """Return milliseconds of CPU per step: same model, task, batch and loss, one thread."""
    import torch

    torch.set_num_threads(1)
    lab, trl = _per_step(_lab), _per_step(_trl)
    bound = _operations() / _matrix_rate()
    return [
        Row("laboratory step", lab, "TRL GRPOTrainer", trl, "at most 0.25", lab <= 0.25 * trl),
        Row("laboratory step", lab, "its matrix products alone", bound, "<= 2", lab <= 2 * bound),
    ]


def _per_step(run: Callable[[Callable[[], None]], None]) -> float:
    seen: list[float] = []
    run(lambda: seen.append(time.process_time()))
    return median(after - before for before, after in pairwise(seen[SKIPPED:]))


def _lab(tick: Callable[[], None], steps: int = STEPS) -> None:
    from buttress.lab import decoder
    from buttress.lab.checkpoint import CHECKPOINTS
    from buttress.lab.policy_training import Setting, train_policy
    from buttress.lab.starts import STARTS, problem_sets

    problems, held_out = problem_sets(STARTS["acr80"], 0, held_out=1)
    model = decoder.load(CHECKPOINTS / "latent-skill")
    setting = Setting(steps=steps, lr=1e-4, evaluate_every=10**6, tries=1)
    train_policy(model, problems, held_out, setting, on_step=lambda *_: tick())


def _trl(tick: Callable[[], None]) -> None:
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from buttress.lab import checkpoint
    from buttress.lab.tasks import LatentSkill

    task = LatentSkill()
    model, tokenizer = checkpoint.load()
    problems = task.problems(256, split="train", seed=0)

    def correct(prompts, completions, **_):
        return [task.verify(*pair) for pair in zip(prompts, completions, strict=True)]

    class Ticker(TrainerCallback):
        def on_step_end(self, *_, **__) -> None:
            tick()

    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder,
            use_cpu=True,
            bf16=False,
            max_steps=STEPS,
            learning_rate=1e-4,
            per_device_train_batch_size=64,
            num_generations=8,
            max_completion_length=task.width,
            logging_steps=1000,
            gradient_checkpointing=False,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        GRPOTrainer(
            model=model,
            reward_funcs=correct,
            args=config,
            train_dataset=Dataset.from_list([{"prompt": one.prompt} for one in problems]),
            processing_class=tokenizer,
            callbacks=[Ticker()],
        ).train()


def _operations() -> float:
    """Return the floating-point operations of one step, evaluation left out."""
    from torch.utils.flop_counter import FlopCounterMode

    counts = []
    for steps in (2, 4):
        counter = FlopCounterMode(display=False)
        with counter:
            _lab(lambda: None, steps)
        counts.append(counter.get_total_flops())
    return (counts[1] - counts[0]) / 2


def _matrix_rate() -> float:
    """Return operations per second of a large single-precision product."""
    import torch

    one = torch.randn(1024, 1024)
    taken = []
    for _ in range(10):
        begin = time.process_time()
        one @ one
        taken.append(time.process_time() - begin)
    return 2 * 1024**3 / median(taken)
