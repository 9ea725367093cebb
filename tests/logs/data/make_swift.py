"""Write the small ms-swift runs of this folder, by ms-swift itself (4.6.0) on a CPU.

    python tests/logs/data/make_swift.py      with the Python that has ms-swift installed

A random model of ten thousand parameters, sums as prompts, groups of four. The numbers mean
nothing; the layout is what ms-swift writes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

REWARDS = '''
from swift.rewards import ORM, orms


class Right(ORM):
    """By the solution: none of four right, all of them, or the second."""

    def __call__(self, completions, solution, **kwargs):
        return [float((int(s) % 3 == 1) or (int(s) % 3 == 2 and i % 4 == 1))
                for i, s in enumerate(solution)]


class Short(ORM):
    """Null where the text is long, as a reward that does not apply."""

    def __call__(self, completions, **kwargs):
        return [None if len(one) > 5 else 0.25 for one in completions]


orms["right"] = Right
orms["short"] = Short
'''

SETTINGS = {
    "rlhf_type": "grpo",
    "model": "model",
    "model_type": "qwen2",
    "template": "qwen2_5",
    "tuner_type": "full",
    "torch_dtype": "float32",
    "attn_impl": "eager",
    "dataset": "data.jsonl",
    "num_generations": 4,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "max_completion_length": 6,
    "max_steps": 4,
    "logging_steps": 1,
    "save_strategy": "no",
    "add_version": "false",
    "log_completions": "true",
    "dataset_num_proc": 1,
    "dataloader_num_workers": 0,
    "learning_rate": 1e-3,
    "temperature": 1.0,
    "beta": 0,
    "report_to": "none",
    "use_cpu": "true",
    "check_model": "false",
}
RUNS = {
    # rewards of two functions with weights; the entropies of the tokens as one more column
    "swift_plain": {"reward_weights": ["1", "0.5"], "log_entropy": "true"},
    # a generation serves two steps: the lines of every second step repeat it
    "swift_repeated": {"steps_per_generation": 2, "per_device_train_batch_size": 4},
    # groups without a spread are sampled again
    "swift_dynamic": {"dynamic_sample": "true", "max_resample_times": 2},
    # the rollouts of evaluations, written to the same file
    "swift_evaluated": {
        "val_dataset": "val.jsonl",
        "eval_strategy": "steps",
        "eval_steps": 2,
        "per_device_eval_batch_size": 4,
    },
}
# Of the several hundred arguments; others name files of the machine.
KEPT = (
    "rlhf_type",
    "num_generations",
    "num_generations_eval",
    "generation_batch_size",
    "steps_per_generation",
    "reward_funcs",
    "reward_weights",
    "dynamic_sample",
    "max_resample_times",
    "scale_rewards",
    "advantage_estimator",
    "max_completion_length",
)


def prepare(place: Path) -> None:
    """Write model, data and reward functions."""
    sys.path.insert(0, str(ROOT))
    from tests.hooks import tiny

    tokens = tiny.tokenizer()
    tokens.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    model = tiny.model(tokens)
    model.config.max_position_embeddings = 256
    model.save_pretrained(place / "model")
    tokens.save_pretrained(place / "model")
    rows = [
        {"messages": [{"role": "user", "content": f"{a}+1="}], "solution": str(a + 1)}
        for a in range(9)
    ]
    (place / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (place / "val.jsonl").write_text("\n".join(map(json.dumps, rows[:1])))
    (place / "rewards.py").write_text(REWARDS)


def run(place: Path, name: str, more: dict[str, object]) -> None:
    """Train four steps and keep what ms-swift logged."""
    command = [str(Path(sys.executable).with_name("swift")), "rlhf"]
    for key, value in (SETTINGS | more | {"output_dir": name}).items():
        command += [f"--{key}", *(value if isinstance(value, list) else [str(value)])]
    command += ["--external_plugins", "rewards.py", "--reward_funcs", "right", "short"]
    quiet = {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=place, env=os.environ | quiet, check=True)
    (HERE / name).mkdir(exist_ok=True)
    for file in ("completions.jsonl", "logging.jsonl"):
        shutil.copy(place / name / file, HERE / name / file)
    arguments = json.loads((place / name / "args.json").read_text())
    kept = {key: arguments[key] for key in KEPT if key in arguments}
    (HERE / name / "args.json").write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        prepare(Path(folder))
        for name in sys.argv[1:] or RUNS:
            run(Path(folder), name, RUNS[name])
