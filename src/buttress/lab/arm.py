"""One training of the demo, in a process of its own: ``python -m buttress.lab.arm SETTING``.

The shipped checkpoint, the real TRL `GRPOTrainer` on the CPU, a remedy attached. What TRL does
stays as it is, so that the optimiser also steps where a whole batch is tied: the gradient is zero,
Adam's momentum is not. Standard output carries one `Report` as JSON per line; everything that the
libraries print goes to standard error.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from buttress.errors import ButtressError

N_PROMPTS = 8  # per step
GROUP_SIZE = 8
TRAIN_PROBLEMS = 256
HELD_OUT_PROBLEMS = 256
WARMUP_STEPS = 20  # of the learning rate

# On this machine alone, one thread, no tracker; a launcher's variables would ask for more ranks.
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "CUDA_VISIBLE_DEVICES": "",
}
LAUNCHER = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Setting(msgspec.Struct, frozen=True):
    """What one arm does; two arms differ in `remedy` and `directory` alone."""

    remedy: str
    directory: str
    steps: int
    seed: int
    learning_rate: float


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The model is loaded; its greedy accuracy on the held-out problems."""

    greedy: float


class Step(msgspec.Struct, frozen=True, tag=True):
    """One step of training: mean reward and collapse rate of its rollouts."""

    step: int
    reward: float | None
    acr: float | None


class Done(msgspec.Struct, frozen=True, tag=True):
    """The training is over: greedy accuracy after it, and how long it took."""

    greedy: float
    seconds: float


Report = Ready | Step | Done


def environment() -> dict[str, str]:
    """Return the environment of an arm's process."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in LAUNCHER and not name.startswith("ACCELERATE_")
    }
    return kept | ENVIRONMENT


def run(setting: Setting, tell: Callable[[Report], None]) -> None:
    """Train one arm, telling how it goes."""
    import torch

    from buttress.lab import checkpoint
    from buttress.lab.tasks import LatentSkill

    torch.set_num_threads(1)
    task = LatentSkill()
    model, tokenizer = checkpoint.load()
    held_out = task.problems(HELD_OUT_PROBLEMS, split="held_out", seed=0)

    def greedy() -> float:
        return float(checkpoint.greedy_accuracy(model, tokenizer, task, held_out).mean())

    tell(Ready(greedy()))
    trainer = _trainer(setting, model, tokenizer, task, tell)
    started = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - started
    trainer.save_state()
    _check_remedy(trainer.state.log_history, setting.remedy)
    tell(Done(greedy(), seconds))


def _trainer(
    setting: Setting, model: Any, tokenizer: Any, task: Any, tell: Callable[[Report], None]
) -> Any:
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from buttress.hooks.trl import attach

    def correct(prompts: list[str], completions: list[str], **_: Any) -> list[float | None]:
        return [task.verify(*pair) for pair in zip(prompts, completions, strict=True)]

    class Teller(TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if logs and "reward" in logs:
                tell(Step(state.global_step, logs["reward"], logs.get("buttress/acr")))

    problems = task.problems(TRAIN_PROBLEMS, split="train", seed=setting.seed)
    config = GRPOConfig(
        output_dir=setting.directory,
        use_cpu=True,
        bf16=False,
        max_steps=setting.steps,
        seed=setting.seed,
        learning_rate=setting.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=WARMUP_STEPS,
        per_device_train_batch_size=N_PROMPTS * GROUP_SIZE,
        num_generations=GROUP_SIZE,
        max_completion_length=task.width + 2,
        temperature=1.0,
        logging_steps=1,
        log_completions=True,
        num_completions_to_print=0,
        gradient_checkpointing=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=correct,
        args=config,
        train_dataset=Dataset.from_list([{"prompt": problem.prompt} for problem in problems]),
        processing_class=tokenizer,
        callbacks=[Teller()],
    )
    return attach(trainer, remedy=setting.remedy)


def _check_remedy(history: list[dict[str, Any]], remedy: str) -> None:
    # a hook never stops a training; a demo of a remedy that did not run would be a lie
    without = sum(entry.get("buttress/fallback", 0.0) > 0 for entry in history)
    if without:
        raise ButtressError(f"the remedy {remedy} did not run in {without} steps")


def main() -> None:
    """Read the setting from the command line and run it."""
    setting = msgspec.json.decode(sys.argv[1], type=Setting)
    reports = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # from here on, what the libraries print is no report
    encoder = msgspec.json.Encoder()
    try:
        run(
            setting, lambda report: print(encoder.encode(report).decode(), file=reports, flush=True)
        )
    except ButtressError as fault:
        sys.exit(f"buttress: {fault}")


if __name__ == "__main__":
    main()
