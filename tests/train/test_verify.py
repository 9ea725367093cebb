"""Judging completions in other processes: right, wrong, unknown, and judges that misbehave."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from buttress.errors import MissingExtraError, UsageError
from buttress.train.judging.verify import Verdict, Verifier
from tests.helpers import require

# Faults of judges: whatever they do, the checks around them are judged.
JUDGES = """
import os
import time

print("a judge that speaks while it is imported")


def length(completions, **_):
    print("a judge that speaks")
    return [float(len(one)) for one in completions]


def by_text(completions, answer, **_):
    [text] = completions
    if text == "hang":
        time.sleep(600)
    if text == "spin":
        while True:
            pass
    if text == "raise":
        raise ZeroDivisionError("a reason")
    if text == "die":
        os._exit(3)
    if text == "memory":
        raise MemoryError
    table = {
        "none": [None], "text": ["1.0"], "nan": [float("nan")], "infinite": [float("inf")],
        "short": [], "long": [1.0, 0.0], "number": 1.0, "list": [[1.0]], "true": [True],
    }
    return table.get(text, [float(text == answer[0])])


def asked(prompts, completions, **columns):
    assert prompts == [[{"role": "user", "content": "2+2?"}]]
    assert completions == [[{"role": "assistant", "content": "4"}]]
    assert columns == {"answer": ["4"], "note": ["n"], "scale": 0.5}
    return [columns["scale"]]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judges")
    (folder / "judges.py").write_text(JUDGES)
    return folder


@pytest.fixture
def judges(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.fixture(scope="module")
def by_text(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with Verifier("judges:by_text", timeout=30, workers=1) as verify:
            yield verify


def one(use, text, answer, **options):
    with Verifier(use, options, workers=1) as verify:
        return verify([text], [{"answer": answer}])[0]


@pytest.fixture(scope="module")
def maths():
    require("math_verify")
    with Verifier("math", timeout=20, workers=1) as verify:
        yield lambda text, answer: verify([text], [{"answer": answer}])[0]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("so 3 + 4 = 7", 7),
        (r"The answer is \boxed{\frac{1}{2}}.", "0.5"),
        (r"\boxed{0.5}", r"\frac12"),
        ("It costs $1,234$.", "1234"),
        ("I get 72.", "48 / 2 = 24, 48 + 24 = 72\n#### 72"),
        (r"$x = \sqrt{8}$", r"2\sqrt{2}"),
        (r"\boxed{(1, 2)}", "(1,2)"),
        ("7 dollars", r"\$7"),
        (r"\boxed{x^2 + 2x + 1}", "(x+1)^2"),
        ("so I add 11 + 58", 69),  # as the docstring warns
    ],
)
def test_math_takes_equal_answers(maths, text, answer):
    assert maths(text, answer) == Verdict(1.0)


@pytest.mark.parametrize(
    ("text", "answer"),
    [("3 + 4 = 8", 7), ("", 7), ("I do not know.", 7), (r"\boxed{7", 8), (r"\boxed{\frac{1}{", 8)],
)
def test_math_takes_no_other(maths, text, answer):
    assert maths(text, answer) == Verdict(0.0)


def test_a_right_answer_that_is_no_mathematics_is_said(maths):
    found = maths("7", " ")
    assert found.score is None
    assert "the right answer '' is no expression" in found.fault


def test_a_power_of_powers_is_given_up_and_the_next_check_works():
    require("math_verify")
    with Verifier("math", timeout=1.5, workers=1) as verify:
        hard, easy = verify([r"\boxed{9^{9^{9^{9}}}}", "7"], [{"answer": "7"}] * 2)
    assert hard.score is None
    assert easy.score == 1.0


@pytest.mark.parametrize("text", ["hang", "spin"])
def test_a_judge_that_does_not_end_costs_its_check_alone(judges, text):
    with Verifier("judges:by_text", timeout=1, workers=1) as verify:
        start = time.monotonic()
        found = verify([text, "4", "5"], [{"answer": "4"}] * 3)
    assert found == [Verdict(None, "it took more than 1 seconds"), Verdict(1.0), Verdict(0.0)]
    assert time.monotonic() - start < 60


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("raise", "ZeroDivisionError: a reason (judges.py:21)"),
        ("die", "its process died"),
        ("memory", "it ran out of memory"),
        ("none", "unscorable: the judge gave none"),
        ("text", "it gave str, not a number"),
        ("list", "it gave list, not a number"),
        ("nan", "it gave nan, not a finite number"),
        ("infinite", "it gave inf, not a finite number"),
        ("short", "it returned 0 values for 1 completion"),
        ("long", "it returned 2 values for 1 completion"),
        ("number", "it returned float, not a list of numbers"),
    ],
)
def test_a_fault_of_a_judge_is_unknown_and_says_why(judges, by_text, text, fault):
    wrong, right = by_text([text, "4"], [{"answer": "4"}] * 2)
    assert wrong.score is None
    assert fault in wrong.fault
    assert right == Verdict(1.0)


def test_a_judge_may_speak_and_say_true(judges, by_text):
    assert one("judges:length", "four", None) == Verdict(4.0)
    assert by_text(["true"], [{"answer": "4"}]) == [Verdict(1.0)]


def test_a_judge_is_asked_as_trl_asks_it(judges):
    row = {"prompt": [{"role": "user", "content": "2+2?"}], "answer": "4", "note": "n"}
    with Verifier("judges:asked", {"scale": 0.5}, workers=1) as verify:
        assert verify(["4"], [row]) == [Verdict(0.5)]


def test_exact_compares_texts_or_the_last_match():
    assert one("exact", " 42\n", 42).score == 1.0
    assert one("exact", "it is 42", 42).score == 0.0
    assert one("exact", "1 or 42", 42, pattern=r"\d+").score == 1.0
    assert one("exact", "none", 42, pattern=r"\d+").score == 0.0


def test_gym_scores_with_the_tasks_own_scorer():
    require("reasoning_gym")
    from buttress.train.problems.data import load_problems

    rows = load_problems("gym:leg_counting?size=2").rows
    with Verifier("gym", workers=1) as verify:
        assert verify.scores([row["answer"] for row in rows], rows) == [1.0, 1.0]
        assert verify.scores(["no number"], rows[:1])[0] < 1


@pytest.mark.parametrize(
    ("use", "said"),
    [
        ("mth", "Did you mean 'math'"),
        ("nosuchmodule:f", "cannot import nosuchmodule"),
        ("judges:by_txt", "Did you mean 'by_text'"),
    ],
)
def test_a_judge_that_cannot_be_had_is_said_at_once(judges, use, said):
    with pytest.raises(UsageError, match=said):
        Verifier(use, workers=1)


def test_options_that_a_judge_does_not_take_are_said_at_once():
    with pytest.raises(UsageError, match="nosuch"):
        Verifier("exact", {"nosuch": 1}, workers=1)
    with pytest.raises(UsageError, match="above 0"):
        Verifier("exact", timeout=0)


def test_a_missing_package_is_said_with_its_extra(monkeypatch, tmp_path):
    (tmp_path / "math_verify.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises((UsageError, MissingExtraError), match=r"buttress\[math\]"):
        Verifier("math", workers=1)


def test_checks_run_side_by_side(judges):
    with Verifier("judges:by_text", timeout=2, workers=2) as verify:
        verify(["4", "4"], [{"answer": "4"}] * 2)
        start = time.monotonic()
        found = verify(["hang", "hang"], [{"answer": "4"}] * 2)
        spent = time.monotonic() - start
    assert [one.score for one in found] == [None, None]
    assert spent < 3.9


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="POSIX signals")
def test_no_worker_outlives_a_killed_owner(judges, tmp_path):
    code = (
        "import sys\n"
        "from buttress.train.judging.verify import Verifier\n"
        "verify = Verifier('judges:by_text', timeout=1, workers=1)\n"
        "print(verify._workers[0]._process.pid, flush=True)\n"
        "verify(['spin'], [{'answer': '4'}])\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    worker = int(owner.stdout.readline())
    time.sleep(0.3)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and _alive(worker):
        time.sleep(0.1)
    assert not _alive(worker)


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except OSError:
        return False
