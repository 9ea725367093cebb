"""One of two ranks that count together; the second dies at its third step."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import buttress as bt
from buttress.hooks.reward_function import monitored
from tests.hooks.monitored_runs import collapsed

STEPS, LAST = 6, 2


def main(rank: int, store: str, out: str) -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    together, own = bt.Monitor(), bt.Monitor()
    reward = monitored(lambda prompts, completions: [1.0] * len(prompts), together, group_size=4)
    for step in range(1, STEPS + 1):
        if rank == 1 and step > LAST:
            os.kill(os.getpid(), signal.SIGKILL)
        reward(["a"] * 4, [""] * 4)
        own.update(collapsed(2), step=step)
        Path(f"{out}.{rank}").write_text(json.dumps(own.state_dict()))
    Path(out).write_text(json.dumps([together.last_step, together.prompts().tries.tolist()]))
    os._exit(0)  # no farewell to a rank that is gone


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
