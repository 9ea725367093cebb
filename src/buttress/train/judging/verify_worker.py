"""The process that checks completions: one JSON line in, one out; it may be ended at any time.

Run as ``python -m buttress.train.judging.verify_worker``. Whatever the judge prints goes to
standard error.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

import msgspec

from buttress.errors import ButtressError, MissingExtraError

MEMORY = 8 << 30  # bytes that math-verify may take: powers of powers take everything
_SAID = 160
Judge = Callable[[str, dict[str, Any]], Any]


class Setup(msgspec.Struct):
    """The first line: what judges, its options, seconds per check."""

    use: str
    options: dict[str, Any]
    seconds: float


class Check(msgspec.Struct):
    """One completion and the row of its problem."""

    text: str
    row: dict[str, Any]


class Reply(msgspec.Struct, omit_defaults=True):
    """A score, or why there is none; the reply to the setup has a fault only."""

    score: float | None = None
    fault: str = ""


def judge_of(use: str, options: dict[str, Any]) -> Judge:
    """Return the function that judges one completion.

    Parameters
    ----------
    use
        ``math`` (math-verify), ``exact``, ``gym`` (the scorer of reasoning-gym), or
        ``module:function``, a reward function as TRL calls it.
    options
        Options of the judge.
    """
    if use == "math":
        from buttress.train.judging.answers import math_checker

        check = math_checker()
        return lambda text, row: check(text, row.get("answer"))
    if ":" in use:
        return _function(use, options)
    from buttress.train.judging.scorers import scorer_of

    if use == "gym":
        try:
            import reasoning_gym  # noqa: F401 - takes seconds, which no check should pay for
        except ImportError:
            raise MissingExtraError.of("the judge gym", "gym") from None
    score = scorer_of(use, options)
    return lambda text, row: score([text], [row])[0]


def _function(use: str, options: dict[str, Any]) -> Judge:
    from buttress.train.rewards import imported

    function = imported(use)

    def judge(text: str, row: dict[str, Any]) -> Any:
        prompt = row.get("prompt")
        # as TRL does: messages are answered by messages
        answer = [{"role": "assistant", "content": text}] if isinstance(prompt, list) else text
        columns = {name: [value] for name, value in row.items() if name != "prompt"}
        values = function(prompts=[prompt], completions=[answer], **columns, **options)
        if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
            raise TypeError(f"it returned {type(values).__name__}, not a list of numbers")
        if len(values) != 1:
            raise TypeError(f"it returned {len(values)} values for 1 completion")
        return values[0]

    return judge


def reply_to(judge: Judge, check: Check) -> Reply:
    """Judge one completion; whatever the judge raises becomes the reason of no score."""
    try:
        value = judge(check.text, check.row)
    except MemoryError:
        return Reply(fault="it ran out of memory")
    except Exception as fault:
        return Reply(fault=_described(fault))
    if value is None:
        return Reply(fault="unscorable: the judge gave none")
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        score = float(value)
    except (TypeError, ValueError):
        return Reply(fault=f"it gave {type(value).__name__}, not a number")
    if not math.isfinite(score):
        return Reply(fault=f"it gave {score}, not a finite number")
    return Reply(score=score)


def _described(fault: Exception) -> str:
    said = f"{type(fault).__name__}: {fault}"[:_SAID] if str(fault) else type(fault).__name__
    frames = traceback.extract_tb(fault.__traceback__)
    ours = os.path.dirname(__file__)  # noqa: PTH120
    theirs = [frame for frame in frames if not frame.filename.startswith(ours)]
    if not theirs:
        return said
    return f"{said} ({os.path.basename(theirs[-1].filename)}:{theirs[-1].lineno})"  # noqa: PTH119


def _limit_memory() -> None:
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _alarm(seconds: float) -> None:
    """End this process when a check lasts: also where nobody is left to end it."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def serve(lines: BinaryIO, replies: BinaryIO) -> None:
    """Answer every line until there are no more."""
    setup = msgspec.json.decode(lines.readline(), type=Setup)
    if setup.use == "math":
        _limit_memory()
    decode, encode = msgspec.json.Decoder(Check).decode, msgspec.json.encode
    try:
        judge = judge_of(setup.use, setup.options)
    except ButtressError as fault:
        replies.write(encode(Reply(fault=str(fault))) + b"\n")
        replies.flush()
        return
    replies.write(encode(Reply()) + b"\n")
    replies.flush()
    for line in lines:
        _alarm(2 * setup.seconds + 1)
        reply = reply_to(judge, decode(line))
        _alarm(0)
        replies.write(encode(reply) + b"\n")
        replies.flush()


def main() -> None:
    """Serve standard input, and keep standard output for the replies alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with suppress(BrokenPipeError):
        serve(sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
