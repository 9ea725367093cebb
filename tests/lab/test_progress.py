"""What the demo shows as it runs, on a terminal and elsewhere."""

import io

from rich.console import Console

from buttress.lab.arm import Done, Ready, Step
from buttress.lab.progress import DemoProgress


def _shown(*, terminal, steps=60):
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100, color_system=None)
    with DemoProgress(["grpo", "avspo"], steps, console=console) as show:
        show("grpo", Ready(0.0))
        for step in range(1, steps + 1):
            show("grpo", Step(step, step / steps, 0.25))
        show("grpo", Done(0.875, 9.0))
        show("avspo", Step(1, None, None))
    return out.getvalue()


def test_without_a_terminal_a_line_now_and_then():
    lines = [" ".join(line.split()) for line in _shown(terminal=False).splitlines()]
    assert lines[0] == "grpo 0/60 greedy accuracy before training 0.0%"
    assert lines[1] == "grpo 10/60 reward 0.17 ACR 0.25"
    assert lines[-1] == "grpo 60/60 greedy accuracy after training 87.5%"
    assert len(lines) == 8


def test_on_a_terminal_two_bars_that_end_at_the_last_report():
    lines = _shown(terminal=True).splitlines()
    grpo, avspo = ([line for line in lines if name in line][-1] for name in ("grpo", "avspo"))
    assert "60/60" in grpo
    assert "greedy accuracy after training 87.5%" in grpo
    assert "1/60" in avspo
    assert "reward -  ACR -" in avspo


def test_fewer_steps_than_lines_shows_each():
    assert len(_shown(terminal=False, steps=3).splitlines()) == 6
