"""Reward functions of a training: checked answers, or a function of the user's own.

A fault of a reward function ends the training with a message that names the function, the line and
the step; what it was asked to judge is kept in a file. Nothing is trained on a made-up reward.
"""

from __future__ import annotations

import asyncio
import atexit
import importlib
import importlib.util
import inspect
import json
import math
import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from buttress.errors import InputError, UsageError
from buttress.logs.prose import text_of
from buttress.train.config import Reward
from buttress.train.judging.scorers import scorer_of
from buttress.train.judging.verify import Verifier
from buttress.train.ranks import RankError

FAILED = "failed-reward"
LIMITS = ("timeout", "workers")  # options of the judging processes, not of the judge
PROBED = 32  # answers that are tried before the training
_SHOWN = 120


class RewardError(RankError):
    """A reward function raised, or returned something else than one number per completion."""


class RewardFunction:
    """One reward as TRL calls it: ``f(prompts=, completions=, **columns)`` gives a list.

    Parameters
    ----------
    reward
        Its settings.
    folder
        Where completions are kept that could not be judged.

    Attributes
    ----------
    verifies
        Whether the values say if an answer is correct, from 0 to 1.
    faults
        Why completions could not be judged, and how many.
    """

    def __init__(self, reward: Reward, folder: Path | str) -> None:
        self.__name__ = reward.name or reward.use.rpartition(":")[2]
        self.use = reward.use
        self.verifies = ":" not in reward.use
        self._folder = Path(folder)
        self._options = dict(reward.options)
        self.faults: Counter[str] = Counter()
        self._verifier: Verifier | None = None
        if not self.verifies:
            self._judge: Callable[..., Any] = imported(reward.use)
        elif reward.use == "exact":
            self._judge = _by_row(scorer_of(reward.use, reward.options))
        else:
            self._judge = _by_row(self._verdicts(reward))

    def __call__(self, **given: Any) -> list[float | None]:
        """Return one reward per completion; None is unscorable."""
        step = getattr(given.get("trainer_state"), "global_step", 0) + 1
        try:
            asked = given if self.verifies else given | self._options
            values = self._judge(**asked)
            if inspect.isawaitable(values):
                values = asyncio.run(_awaited(values))
        except Exception as fault:
            where = _place(fault)
            message = f"raised {type(fault).__name__}: {str(fault)[:_SHOWN]}{where}"
            raise self._error(step, message, given) from fault
        completions = given["completions"]
        return self._checked(values, len(completions), step, given)

    def check(self, rows: Sequence[dict[str, Any]]) -> list[str]:
        """Judge some right answers as if they were completions: can they be read at all?

        Returns a note where some cannot; raises `UsageError` where none can.
        """
        if self._verifier is None or self.use != "math":
            return []
        every = max(1, len(rows) // PROBED)
        probed = list(enumerate(rows))[::every]
        verdicts = self._verifier([str(row["answer"]) for _, row in probed], [r for _, r in probed])
        bad = [
            (at, one.fault)
            for (at, _), one in zip(probed, verdicts, strict=True)
            if one.score is None
        ]
        if not bad:
            return []
        first = f"row {bad[0][0]}: {bad[0][1]}"
        if len(bad) == len(probed):
            raise UsageError(f"the answers of the data set cannot be read by math-verify ({first})")
        return [
            f"{len(bad)} of {len(probed)} answers tried cannot be read by math-verify; rollouts "
            f"of such problems are unscorable ({first})"
        ]

    def close(self) -> None:
        """End the processes that judge."""
        if self._verifier is not None:
            atexit.unregister(self._verifier.close)
            self._verifier.close()

    def _verdicts(self, reward: Reward) -> Callable[..., Any]:
        """Return what judges in other processes, with a time limit for each check."""
        limits = {name: reward.options[name] for name in LIMITS if name in reward.options}
        options = {name: value for name, value in reward.options.items() if name not in LIMITS}
        verifier = Verifier(reward.use, options, **limits)
        self._verifier = verifier
        atexit.register(verifier.close)

        def judge(texts: Sequence[str], rows: Sequence[dict[str, Any]]) -> list[float | None]:
            verdicts = verifier(texts, [_plain(row) for row in rows])
            self.faults.update(one.fault for one in verdicts if one.score is None)
            return [verdict.score for verdict in verdicts]

        return judge

    def _checked(
        self, values: Any, count: int, step: int, given: dict[str, Any]
    ) -> list[float | None]:
        values = values.tolist() if hasattr(values, "tolist") else values
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise self._error(step, f"returned {values!r:.60} and no list", given)
        values = list(values)
        if len(values) != count:
            message = f"returned {len(values)} rewards for {count} completions"
            raise self._error(step, message, given)
        found = []
        for at, value in enumerate(values):
            try:
                found.append(_number(value))
            except (TypeError, ValueError):
                message = f"returned {value!r:.60} for completion {at}, and no finite number"
                raise self._error(step, message, given) from None
        return found

    def _error(self, step: int, message: str, given: dict[str, Any]) -> RewardError:
        kept = ""
        with suppress(OSError):
            kept = f" The completions are kept in {self._keep(step, given)}."
        return RewardError(
            f"reward {self.use} {message} (step {step}). Nothing was trained on it.{kept} "
            "Mend the function and go on with --resume"
        )

    def _keep(self, step: int, given: dict[str, Any]) -> Path:
        """Write what the function was given, one line per completion; return the path."""
        count = len(given["completions"])
        columns = {
            name: values
            for name, values in given.items()
            if isinstance(values, Sequence) and not isinstance(values, str) and len(values) == count
        }
        # no suffix of a log: a diagnosis of the run must not read it
        rank = os.environ.get("RANK", "0")
        path = self._folder / f"{FAILED}-step{step}-rank{rank}-{self.__name__}.txt"
        with path.open("w", encoding="utf-8") as file:
            for row in zip(*columns.values(), strict=True):
                line = dict(zip(columns, row, strict=True))
                file.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
        return path


def reward_functions(rewards: Iterable[Reward], folder: Path | str) -> list[RewardFunction]:
    """Return the functions of these settings; raises where one cannot be had."""
    return [RewardFunction(reward, folder) for reward in rewards]


def imported(name: str) -> Callable[..., Any]:
    """Return ``function`` of ``module:function`` or ``path/to/file.py:function``.

    The working directory is looked into as well. Raises `InputError` where there is no such thing.
    """
    place, _, attribute = name.rpartition(":")
    try:
        module = _from_file(Path(place)) if place.endswith(".py") else _from_path(place)
    except Exception as fault:
        kind = type(fault).__name__
        raise InputError(f"reward {name}: cannot import {place}: {kind}: {fault}") from fault
    found = getattr(module, attribute, None)
    if not callable(found):
        functions = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise InputError(
            f"reward {name}: {UsageError.unknown('function', attribute, functions)}"
            if functions
            else f"reward {name}: {place} has no function {attribute}"
        )
    return found


def _from_path(place: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return importlib.import_module(place)


def _from_file(path: Path) -> Any:
    name = f"buttress_reward_{path.stem}"  # must not shadow a module that is there
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise FileNotFoundError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


async def _awaited(values: Any) -> Any:
    return await values


def _by_row(score: Callable[[Sequence[str], Sequence[dict[str, Any]]], Any]) -> Callable[..., Any]:
    def judge(completions: Sequence[Any], **columns: Any) -> Any:
        texts = [text_of(one) or "" for one in completions]
        count = len(texts)
        names = [
            name
            for name, values in columns.items()
            if isinstance(values, list) and len(values) == count
        ]
        return score(texts, [{name: columns[name][at] for name in names} for at in range(count)])

    return judge


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of the data set, without what TRL passes besides."""
    return {name: value for name, value in row.items() if name != "completion_ids"}


def _number(value: Any) -> float | None:
    """Return a finite number; None for None and NaN, which are unscorable."""
    if value is None:
        return None
    if isinstance(value, str | bytes):
        raise TypeError("a text is no number")
    number = float(value)
    if math.isinf(number):
        raise ValueError("infinite")
    return None if math.isnan(number) else number


def _place(fault: Exception) -> str:
    frames = traceback.extract_tb(fault.__traceback__)
    return f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
