"""Processes of the demo: heard while they run, ended when one fails or the user interrupts."""

import os
import signal
import subprocess
import sys
import time

import pytest

from buttress.errors import ButtressError
from buttress.lab import processes
from buttress.lab.arm import Done, Ready, Setting, Step, environment

GOOD = """
print('{"type": "Ready", "greedy": 0.0}', flush=True)
print('{"type": "Step", "step": 1, "reward": 0.5, "acr": null}', flush=True)
print('{"type": "Done", "greedy": 1.0, "seconds": 2.0}', flush=True)
"""
BAD = """
import sys
print("a first line", file=sys.stderr)
for number in range(40): print("noise", number, file=sys.stderr)
raise SystemExit("out of luck")
"""
ENDLESS = """
import time
print('{"type": "Ready", "greedy": 0.0}', flush=True)
time.sleep(600)
"""
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" + ENDLESS


@pytest.fixture
def arms(monkeypatch, tmp_path):
    """Return a function that lets scripts stand in for the trainings, by remedy."""
    started = []

    def stand_in(**scripts):
        start = processes._start

        def remember(setting):
            started.append(start(setting))
            return started[-1]

        monkeypatch.setattr(
            processes, "_command", lambda one: [sys.executable, "-c", scripts[one.remedy]]
        )
        monkeypatch.setattr(processes, "_start", remember)
        return [Setting(name, str(tmp_path / name), 1, 0, 1e-4) for name in scripts]

    yield stand_in
    assert started
    assert all(process.poll() is not None for process in started)


def test_every_report_is_heard(arms):
    heard = []
    processes.run_side_by_side(arms(grpo=GOOD, avspo=GOOD), lambda *one: heard.append(one))
    said = [Ready(0.0), Step(1, 0.5, None), Done(1.0, 2.0)]
    assert [report for name, report in heard if name == "grpo"] == said
    assert [report for name, report in heard if name == "avspo"] == said


def test_one_that_fails_shows_its_last_lines_and_ends_the_other(arms):
    with pytest.raises(ButtressError) as fault:
        processes.run_side_by_side(arms(grpo=ENDLESS, avspo=BAD), lambda *_: None)
    message = str(fault.value)
    assert "training with avspo ended with exit code 1" in message
    assert "avspo.log" in message
    assert "noise 39" in message
    assert message.endswith("out of luck")
    assert "a first line" not in message


def test_one_that_is_killed_is_told_so(arms):
    script = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    with pytest.raises(ButtressError, match="ended with signal 9"):
        processes.run_side_by_side(arms(grpo=script), lambda *_: None)


def test_a_fault_of_the_listener_ends_all_even_the_stubborn(arms, monkeypatch):
    monkeypatch.setattr(processes, "GRACE", 0.2)

    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        processes.run_side_by_side(arms(grpo=ENDLESS, avspo=STUBBORN), interrupt)


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_an_interrupt_while_waiting_ends_all(tmp_path):
    script = f"""
import sys
from buttress.lab import processes
from buttress.lab.arm import Setting
processes._command = lambda one: [sys.executable, "-c", {ENDLESS!r}]
start = processes._start
def tell(setting):
    process = start(setting)
    print(process.pid, flush=True)
    return process
processes._start = tell
settings = [Setting(name, {str(tmp_path)!r} + "/" + name, 1, 0, 1e-4) for name in ("a", "b")]
processes.run_side_by_side(settings, lambda name, report: print("heard", flush=True))
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as parent:
        lines = [parent.stdout.readline().strip() for _ in range(4)]
        children = [int(line) for line in lines if line != "heard"]
        time.sleep(0.1)  # back to waiting
        parent.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in parent.communicate(timeout=20)[1]
    assert len(children) == 2
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


def test_environment_keeps_to_this_machine(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    monkeypatch.setenv("MY_OWN", "kept")
    found = environment()
    assert "WORLD_SIZE" not in found
    assert "ACCELERATE_USE_FSDP" not in found
    assert found["MY_OWN"] == "kept"
    assert found["OMP_NUM_THREADS"] == found["HF_HUB_OFFLINE"] == "1"
