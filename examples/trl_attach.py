"""GRPO with TRL on a tiny model, with AVSPO's advantages and the collapse rate in the logs."""

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from buttress.hooks.trl import attach
from buttress.lab.checkpoint import load
from buttress.lab.tasks import LatentSkill

task = LatentSkill()
model, tokenizer = load()
problems = task.problems(64, split="train", seed=0)


def sorted_digits(prompts, completions, **_):
    """Return 1 where a completion is the sorted digits of its prompt."""
    pairs = zip(prompts, completions, strict=True)
    return [task.verify(prompt, completion) for prompt, completion in pairs]


trainer = GRPOTrainer(
    model=model,
    processing_class=tokenizer,
    reward_funcs=sorted_digits,
    train_dataset=Dataset.from_dict({"prompt": [problem.prompt for problem in problems]}),
    args=GRPOConfig(
        output_dir="trl-run",
        max_steps=4,
        per_device_train_batch_size=16,
        num_generations=8,
        max_completion_length=8,
        logging_steps=1,
        log_completions=True,
        report_to=[],
        use_cpu=True,
        bf16=False,
        save_strategy="no",
    ),
)
attach(trainer, remedy="avspo")
trainer.train()
print([entry["buttress/acr"] for entry in trainer.state.log_history if "buttress/acr" in entry])
