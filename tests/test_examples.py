"""Every example of the documentation runs as a user would run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import require

EXAMPLES = Path(__file__).parent.parent / "examples"
SAYS = {
    "tutorial.py": "phantom-signal",
    "loop.py": "success rate 0.9",
    "add_remedy.py": "0.66666667 -0.33333333",
    "monitor.py": "collapse",
    "trl_attach.py": "[",
}


def test_every_example_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAYS)


@pytest.mark.parametrize("name", sorted(SAYS))
def test_an_example_says_what_its_page_says(name, tmp_path):
    if name.startswith("trl"):
        require("trl")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert SAYS[name] in done.stdout
