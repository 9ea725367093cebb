"""From settings to GRPOConfig: batches over ranks, fields that follow, fields that are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buttress.errors import UsageError
from buttress.train.arguments import OURS, adapter, batch_sizes, grpo_arguments
from buttress.train.config import load
from buttress.train.source import Source
from tests.helpers import require
from tests.hooks import tiny

pytestmark = [pytest.mark.trl, *map(pytest.mark.filterwarnings, tiny.QUIET)]


def settings(**more):
    source = Source({"model": "m", "data": "d", "out": "o", "reward": "exact"} | more)
    return load(source), source


@given(
    prompts=st.integers(1, 16),
    group=st.integers(2, 9),
    updates=st.integers(1, 4),
    world=st.integers(1, 4),
    micro=st.integers(1, 12) | st.none(),
)
def test_batches_add_up_to_the_generation_on_any_number_of_ranks(
    prompts, group, updates, world, micro
):
    trainer = {} if micro is None else {"per_device_train_batch_size": micro}
    config, source = settings(prompts=prompts, group_size=group, updates=updates, trainer=trainer)
    rows = prompts * group
    fits = rows % (updates * world) == 0
    fits = fits and (micro is None or rows // (updates * world) % micro == 0)
    if not fits:
        with pytest.raises(UsageError, match="divide"):
            batch_sizes(config, source, world=world)
        return
    sizes = batch_sizes(config, source, world=world)
    per_update = sizes["per_device_train_batch_size"] * sizes["gradient_accumulation_steps"] * world
    assert per_update * updates == rows
    assert sizes["steps_per_generation"] == sizes["gradient_accumulation_steps"] * updates


def test_grpo_config_gets_our_settings_and_the_table():
    require("trl")
    trainer = {"learning_rate": 3e-6, "beta": 0.01, "loss_type": "dr_grpo"}
    config, source = settings(steps=7, seed=3, group_size=4, prompts=2, trainer=trainer)
    args = grpo_arguments(config, source, world=1)
    assert (args.max_steps, args.seed, args.num_generations) == (7, 3, 4)
    assert (args.learning_rate, args.beta, args.loss_type) == (3e-6, 0.01, "dr_grpo")
    assert args.generation_batch_size == 8
    assert args.logging_steps == 1
    assert not args.log_completions


@pytest.mark.parametrize("name", sorted(OURS))
def test_fields_that_follow_from_others_are_refused(name):
    require("trl")
    config, source = settings(trainer={name: 1})
    with pytest.raises(UsageError, match=f"{name} is not set in .trainer.; it follows from"):
        grpo_arguments(config, source, world=1)


@pytest.mark.parametrize(
    ("trainer", "said"),
    [
        ({"lerning_rate": 1}, "unknown setting of .trainer. 'lerning_rate'; .* learning_rate"),
        ({"zzz": 1}, "nothing like it is known"),
        ({"num_iterations": "2"}, "num_iterations must be int; got '2'"),
        ({"bf16": "yes"}, "bf16 must be bool; got 'yes'"),
        ({"lr_scheduler_type": "sideways"}, "TRL refuses these settings"),
    ],
)
def test_what_trl_does_not_take(trainer, said):
    require("trl")
    config, source = settings(trainer=trainer)
    with pytest.raises(UsageError, match=said):
        grpo_arguments(config, source, world=1)


def test_checkpoints_amid_a_generation_are_refused():
    require("trl")
    config, source = settings(updates=2, prompts=4, trainer={"save_steps": 3})
    with pytest.raises(UsageError, match="multiple of the 2 steps that share a generation"):
        grpo_arguments(config, source, world=1)
    config, source = settings(updates=2, prompts=4, trainer={"save_steps": 4})
    assert grpo_arguments(config, source, world=1).save_steps == 4


def test_lora_fields_are_checked():
    require("peft")
    config, source = settings(lora={"r": 4, "target_modules": "all-linear"})
    assert adapter(config, source).r == 4
    assert adapter(*settings()) is None
    config, source = settings(lora={"rank": 4})
    with pytest.raises(UsageError, match=r"unknown setting of \[lora\] 'rank'"):
        adapter(config, source)


def test_fsdp_goes_through():
    require("trl")
    trainer = {
        "fsdp": True,
        "fsdp_config": {"transformer_layer_cls_to_wrap": ["Qwen2DecoderLayer"]},
    }
    config, source = settings(trainer=trainer)
    assert grpo_arguments(config, source, world=1).fsdp
