"""A rank that dies takes neither the others nor the counts with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import buttress as bt
from tests.helpers import require
from tests.hooks.dying_rank import LAST, STEPS

require("torch")


def test_the_others_go_on_and_its_counts_are_in_its_state(tmp_path):
    arguments = [str(tmp_path / "store"), str(tmp_path / "out")]
    both = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.hooks.dying_rank", str(rank), *arguments],
            cwd=Path(__file__).parents[2],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    said = [one.communicate(timeout=300)[1] for one in both]
    assert [one.returncode for one in both] == [0, -signal.SIGKILL], said
    assert said[0].count("buttress could not hear the other ranks") == 1
    assert json.loads((tmp_path / "out").read_text()) == [LAST, [2 * 4 * LAST]]
    total = bt.Monitor(policies=[])
    for rank in (0, 1):
        part = bt.Monitor(policies=[])
        part.load_state_dict(json.loads(Path(f"{arguments[1]}.{rank}").read_text()))
        total.merge(part)
    assert total.last_step == STEPS
    assert total._counting.ledger.spent.rollouts == 2 * 4 * (STEPS + LAST)
