"""A monitor round any reward function, for trainers that offer no other place.

::

    trainer = GRPOTrainer(..., reward_funcs=[monitored(accuracy, monitor, group_size=8), style])

It sees one reward function, not their sum, and no advantages: where `attach` works, it sees more.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from buttress.errors import UsageError
from buttress.groups import Groups
from buttress.hooks import ranks
from buttress.hooks.faults import Faults
from buttress.logs.prose import text_digest, text_of
from buttress.remedies import options

Row = tuple[str | None, Any, int | None]  # digest of the prompt, reward, tokens


def monitored(
    reward: Callable[..., Any],
    monitor: Any,
    *,
    group_size: int | None = None,
    step: Callable[[], int] | None = None,
    active: Callable[[], bool] | None = None,
) -> Callable[..., Any]:
    """Return the same reward function, whose rewards a monitor sees as groups.

    The rows of all ranks are put together in the order of the ranks, so that a group may lie on
    several; the monitor of the first rank counts. A fault of the monitor is one warning, and so is
    a rank that died, after which nothing is counted; a fault of the reward function stays its own.

    Parameters
    ----------
    reward
        ``f(prompts=..., completions=..., **columns) -> list of numbers`` as TRL and others call
        it; prompts may also be the first positional argument. A coroutine function stays one.
    monitor
        A `Monitor`, or an object with ``update(groups, step=...)``.
    group_size
        Rows of a group, which stand together. By default neighbours with the same prompt are a
        group; that merges two groups of one prompt.
    step
        Tells the training step. By default ``trainer_state.global_step + 1`` where the trainer
        passes it, else the number of the call.
    active
        Tells whether to count, for trainers that call the function in evaluation too.

    Examples
    --------
    >>> from buttress.hooks import Monitor
    >>> monitor = Monitor()
    >>> score = monitored(lambda prompts, completions: [1.0, 1.0, 0.0, 1.0], monitor)
    >>> score(["a", "a", "b", "b"], ["", "", "", ""])
    [1.0, 1.0, 0.0, 1.0]
    >>> monitor.metrics()["buttress/acr"]
    0.5
    """
    _check(reward, monitor, group_size)
    watcher = _Watcher(monitor, group_size, step, active)
    if inspect.iscoroutinefunction(reward):

        @functools.wraps(reward)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            rewards = await reward(*args, **kwargs)
            watcher.see(rewards, args, kwargs)
            return rewards

        return awaited

    @functools.wraps(reward)
    def called(*args: Any, **kwargs: Any) -> Any:
        rewards = reward(*args, **kwargs)
        watcher.see(rewards, args, kwargs)
        return rewards

    return called


class _Watcher:
    def __init__(self, monitor: Any, group_size: int | None, step: Any, active: Any) -> None:
        self._monitor, self._group_size = monitor, group_size
        self._step, self._active = step, active
        self._calls = 0
        self._apart = False  # a rank is gone
        self._faults = Faults()

    def see(self, rewards: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Take in the rewards of one call."""
        rows: list[Row] | None = None
        counts = True
        with self._faults.shield("see the rewards", "the monitor missed a step", own=True):
            counts = self._active is None or bool(self._active())
            rows = _rows(rewards, args, kwargs)
        if not counts or self._apart:
            return
        # every rank comes here, also after a fault: one that stayed away would hang the others
        gathered: list[list[Row] | None] = [None]
        with self._faults.shield("hear the other ranks", "the monitor counts no further", own=True):
            self._apart = True
            gathered = ranks.everyone(rows)
            self._apart = False
        self._calls += 1
        if ranks.rank() or any(part is None for part in gathered):
            return
        with self._faults.shield("see the rewards", "the monitor missed a step"):
            groups = _groups([row for part in gathered for row in part or ()], self._group_size)
            self._monitor.update(groups, step=self._at(kwargs))

    def _at(self, kwargs: dict[str, Any]) -> int:
        if self._step is not None:
            return int(self._step())
        state = kwargs.get("trainer_state")
        return self._calls if state is None else int(state.global_step) + 1


def _check(reward: Any, monitor: Any, group_size: int | None) -> None:
    if not callable(reward) or isinstance(reward, type) or hasattr(reward, "state_dict"):
        raise UsageError(
            "monitored needs a reward function; for a reward model give the monitor to "
            f"attach(trainer, monitor=...); got {type(reward).__name__}"
        )
    if not callable(getattr(monitor, "update", None)):
        raise UsageError(f"monitor must have update(groups, step=...); got {monitor!r}")
    if group_size is not None:
        options.whole("group_size", group_size, 2)


def _rows(rewards: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Row]:
    values = [None if one is None else float(one) for one in rewards]
    prompts = kwargs.get("prompts", args[0] if args else [None] * len(values))
    ids = kwargs.get("completion_ids") or [None] * len(values)
    return [
        (_identity(prompt), value, None if tokens is None else len(tokens))
        for prompt, value, tokens in zip(prompts, values, ids, strict=True)
    ]


def _identity(prompt: Any) -> str | None:
    text = text_of(prompt) if isinstance(prompt, str | list | tuple | dict) else None
    return text_digest(text) if text else None


def _groups(rows: Sequence[Row], group_size: int | None) -> Groups:
    prompts, rewards, lengths = (list(column) for column in zip(*rows, strict=True))
    if group_size is not None:
        if len(rows) % group_size:
            raise UsageError(f"{len(rows)} rewards do not make groups of {group_size}")
        group = [at // group_size for at in range(len(rows))]
    else:
        if None in prompts:
            raise UsageError("the prompts are not known: give group_size=")
        group = _runs(prompts)
    return Groups.from_flat(rewards, group, prompt_id=prompts, length=lengths)


def _runs(values: Sequence[Any]) -> list[int]:
    """Number runs of equal neighbours.

    Examples
    --------
    >>> _runs(["a", "a", "b", "a"])
    [0, 0, 1, 2]
    """
    group, number = [], -1
    for at, value in enumerate(values):
        number += at == 0 or value != values[at - 1]
        group.append(number)
    return group
