"""Pickled dumps are never opened; how their rollouts are written as JSON lines instead."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from buttress.logs.files import PICKLE_ADVICE

# slime (THUDM/slime at commit 624b824, `save_debug_rollout_data`) and its forks: torch.save of
# {"rollout_id", "samples": [Sample.to_dict()]}, at a path of the user's with the step in it.
_SLIME = re.compile(r"(^|/)rollout_data/[^/]*\.pt$|(^|/)(eval_)?\d+\.pt$")
SLIME = """\
if slime wrote it (--save-debug-rollout-data, --dump-details), this does: \
python -c "import json, sys, torch
for path in sys.argv[1:]:
    dump = torch.load(path, weights_only=False)
    for one in dump['samples']:
        print(json.dumps(dict(step=dump['rollout_id'], group=one['group_index'], \
sample=one['index'], prompt=one['prompt'], completion=one['response'], reward=one['reward'], \
length=one['response_length'], truncated=one['status'] == 'truncated')))\
" *.pt > rollouts.jsonl"""
# SkyRL (NovaSky-AI/SkyRL at commit a956457): `RayPPOTrainer` takes rewards and uids out of the
# batch before `dump_data`.
_SKYRL = re.compile(r"global_step_\d+_training_input\.pkl$")
SKYRL = (
    "SkyRL's training_input.pkl holds neither rewards nor uids, so that nothing can be made of it: "
    "write generator_output['rewards'], uids and global_step from an override of the trainer's "
    "convert_to_training_input(generator_output, uids). Its evaluations (dump_eval_results) are "
    "JSON lines and are read"
)


def advice(paths: Sequence[Path]) -> str:
    """Return why pickled files are not opened, and how their writer's rollouts are exported.

    >>> "generator_output" in advice([Path("dumped_data/global_step_3_training_input.pkl")])
    True
    """
    names = [path.as_posix() for path in paths]
    parts = [PICKLE_ADVICE]
    if any(map(_SKYRL.search, names)):
        parts.append(SKYRL)
    if any(map(_SLIME.search, names)):
        parts.append(SLIME)
    return "; ".join(parts)
