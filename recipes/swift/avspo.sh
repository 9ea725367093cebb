#!/bin/sh
# AVSPO in ms-swift 4.6, the setting of ../avspo.toml. Other arguments are handed on.
#
#   pip install 'buttress[swift]' math-verify
#   python recipes/prepare.py swift level3-500.jsonl level3-500-swift.jsonl
#   NPROC_PER_NODE=8 recipes/swift/avspo.sh
#   buttress diagnose runs/swift-avspo
set -eu
export BUTTRESS_REMEDY="${BUTTRESS_REMEDY:-avspo}"
export BUTTRESS_OPTIONS="${BUTTRESS_OPTIONS:-{\}}"
exec swift rlhf --rlhf_type grpo \
  --external_plugins "$(python -m buttress.hooks.swift_plugin)" \
  --model Qwen/Qwen2.5-Math-1.5B \
  --tuner_type full \
  --torch_dtype bfloat16 \
  --dataset level3-500-swift.jsonl \
  --reward_funcs accuracy \
  --num_generations 8 \
  --per_device_train_batch_size 8 \
  --gradient_accumulation_steps 1 \
  --max_completion_length 1024 \
  --max_steps 500 \
  --learning_rate 1e-6 \
  --lr_scheduler_type constant \
  --weight_decay 0.01 \
  --temperature 1.0 \
  --beta 0 \
  --epsilon 0.2 \
  --loss_type grpo \
  --seed 42 \
  --logging_steps 1 \
  --log_completions true \
  --save_steps 50 \
  --output_dir runs/swift-avspo \
  --add_version false \
  "$@"
