"""The health of a run while it goes on: counted, judged, reported, and never in its way.

In a loop of one's own::

    monitor = bt.Monitor(sinks=[JsonLines("run/buttress.jsonl")])
    est = bt.estimator("avspo")
    for step in range(1, 1001):
        groups = bt.Groups.from_nested(rewards, prompt_id=ids)
        advantages = est(groups)
        monitor.update(groups, step=step, reading=est)
        if monitor.stop_requested:
            break
    monitor.close()

Inside a trainer it is given to ``attach`` (TRL), to ``BUTTRESS_MONITOR`` (ms-swift), to
``algorithm.buttress.monitor`` (verl), or wrapped round a reward function (`monitored`).
"""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from typing import Any, Self

from buttress.errors import UsageError
from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.hooks.faults import Faults
from buttress.hooks.monitor.acting import Acting
from buttress.hooks.monitor.actions import Event, Request
from buttress.hooks.monitor.counting import Counting, by_step
from buttress.hooks.monitor.ledger import BLOCK, Ledger
from buttress.hooks.monitor.policies import Policy, read_policies
from buttress.hooks.monitor.series import CourseTable
from buttress.hooks.sinks import read_sinks
from buttress.hooks.sinks.outbox import Post
from buttress.measures import PromptTable
from buttress.remedies import options

SCHEMA = 1


class Monitor:
    """Counts every step of a run, in memory that grows with its prompts only.

    Only the constructor and the methods that take a state or another monitor raise. A fault inside
    `update` is one warning, and the run goes on.

    Parameters
    ----------
    policies
        `Policy` objects; None for `policies.DEFAULTS` (warnings), ``[]`` for none.
    sinks
        Where the numbers go after each step; see `buttress.hooks.sinks`.
    window
        Steps of ``acr_window`` and the other windowed numbers, a multiple of 20: the last full
        blocks of twenty steps and the one that is under way.
    warmup
        Steps in which no policy speaks.
    max_prompts
        Prompts that are kept apart. With more of them a fair sample of this size is kept, whose
        counts are complete; the number of prompts is then an estimate (see `PromptStore`).
    total_steps
        The length of the run, for the forecast; trainers that know it say so themselves.
    tolerance
        When rewards are tied.

    Examples
    --------
    >>> monitor = Monitor()
    >>> monitor.update(Groups.from_nested([[1, 1], [0, 1]]), step=1)
    >>> monitor.metrics()["buttress/acr"]
    0.5
    """

    def __init__(
        self,
        *,
        policies: Any = None,
        sinks: Any = (),
        window: int = 60,
        warmup: int = 20,
        max_prompts: int = 100_000,
        total_steps: int | None = None,
        tolerance: Tolerance = DEFAULT_TOLERANCE,
    ) -> None:
        options.whole("window", window, BLOCK)
        options.whole("warmup", warmup, 0)
        options.whole("max_prompts", max_prompts, 2)
        if window % BLOCK:
            raise UsageError(f"window must be a multiple of {BLOCK}; got {window}")
        options.whole("total_steps", 1 if total_steps is None else total_steps, 1)
        if not isinstance(tolerance, Tolerance):
            raise UsageError(f"tolerance must be a Tolerance; got {tolerance!r}")
        self.policies: tuple[Policy, ...] = read_policies(policies)
        self.faults = Faults()
        self._acting = Acting(self.policies, warmup, self.faults)
        self._counting = Counting(Ledger(tolerance, window, max_prompts), total_steps)
        self._post = Post(read_sinks(sinks))
        if self._post:
            atexit.register(self.close, wait=2.0)

    @property
    def tolerance(self) -> Tolerance:
        """When rewards are tied."""
        return self._counting.ledger.tolerance

    @property
    def total_steps(self) -> int | None:
        """The length of the run, where it is known."""
        return self._counting.readout.total_steps

    @total_steps.setter
    def total_steps(self, steps: int | None) -> None:
        self._counting.readout.total_steps = steps

    def update(self, groups: Groups, step: int | None = None, *, reading: Any = None) -> None:
        """Take in the groups of one step, or of a part of it.

        Steps that were over and come again, as after a restart, are left out: a step is over when
        another one began or the monitor was restored from a state.

        Parameters
        ----------
        groups
            With prompt ids, and the columns ``correct``, ``reward/<name>``, ``length``,
            ``truncated``, ``advantage`` where they are known.
        step
            The training step; by default that of the groups.
        reading
            The estimator of this step (then asked when the numbers are wanted, and no later than
            the next update), or its ``est.reading``: its numbers appear among the metrics.
        """
        with self.faults.shield("update its monitor", "the monitor missed a step"):
            self._update(Groups.checked(groups), step, reading)

    def _update(self, groups: Groups, step: int | None, reading: Any) -> None:
        for at, part in by_step(groups) if step is None else [(step, groups)]:
            if self._post and at != self._post.due:
                self._post.send(self.metrics, self._acting.fetch_news)
            if not self._counting.add(at, part):
                self.faults.warn(
                    f"buttress got step {at} again after it was over: rollouts of steps that "
                    "were counted are left out of the monitor"
                )
                continue
            if reading is not None:  # a row goes out when its estimator is a step further
                self._counting.read_from(reading, now=bool(self._post))
            self._post.due = at
            if self.policies:
                steps_seen = len(self._counting.ledger.steps)
                self._acting.look(at, steps_seen, self._counting.number)

    # --- what is known ---

    def metrics(self) -> dict[str, float]:
        """Return every number under a stable name, NaN where it is unknown.

        ``buttress/acr``, ``all_wrong``, ``all_correct``, ``tied_between``, ``near_tied`` are shares
        of the groups with two or more scorable rollouts; ``unscorable_share``,
        ``effective_batch`` and ``truncated`` of the rollouts; ``acr_after`` is the ACR by the
        advantages; ``acr/<component>`` that of a reward component. All are of the last step;
        ``<name>_window`` is of the last steps, ``acr_early`` of the first 100, ``acr_run`` of all.
        ``prompts``, ``prompts_unsolved``, ``prompts_solved`` count prompts that were never and
        always solved; ``forecast``, ``forecast_low``, ``forecast_high`` say where the mean of
        ``correct`` (or of the reward) is heading at the end of the run. The numbers of the
        estimator's reading (``threshold``, ``triggered``, ``K``) have their own names.
        """
        found: dict[str, float] = {}
        with self.faults.shield("compute its metrics", "some are missing"):
            found = self._counting.metrics()
            found |= {"alerts": self._acting.fired, "sink_rows_lost": self._post.lost}
        return {f"buttress/{name}": float(value) for name, value in found.items()}

    def prompts(self) -> PromptTable:
        """Return tries and successes of each prompt (of a sample where there are too many)."""
        self._counting.ledger.settle()
        return self._counting.ledger.prompts.table()

    def course(self) -> CourseTable:
        """Return the run in at most 64 blocks of steps."""
        return self._counting.ledger.course()

    @property
    def last_step(self) -> int | None:
        """The highest step that was counted."""
        return self._counting.ledger.steps.last

    # --- acting ---

    @property
    def events(self) -> list[Event]:
        """What the policies did, oldest first; the last 1000."""
        return self._acting.events

    @property
    def stop_requested(self) -> Event | None:
        """The event that asks for the end of the run, None while there is none."""
        return self._acting.stop

    def requests(self) -> list[tuple[Event, Request]]:
        """Return what policies ask of the trainer since the last call, oldest first."""
        return self._acting.requests()

    def note(self, event: Event) -> None:
        """Write an event to the log and to the sinks; trainers report here what they did."""
        self._acting.note(event)

    # --- ranks, checkpoints, the end ---

    def merge(self, other: Monitor) -> None:
        """Take in what the monitor of another rank has counted; raises `UsageError` on settings.

        The counts are then those of one monitor over all groups of both. Policies and sinks stay
        this monitor's own.
        """
        if not isinstance(other, Monitor):
            raise UsageError(f"cannot merge {type(other).__name__} into a Monitor")
        self._counting.merge(other._counting)

    def __add__(self, other: Monitor) -> Monitor:
        """Return a monitor of both, without policies and sinks."""
        if not isinstance(other, Monitor):
            return NotImplemented
        both = self.like()
        both.merge(self)
        both.merge(other)
        return both

    def like(self) -> Self:
        """Return an empty monitor that counts alike, without policies and sinks."""
        ledger = self._counting.ledger
        return type(self)(
            policies=[],
            window=ledger.window,
            warmup=self._acting.warmup,
            max_prompts=ledger.prompts.limit,
            total_steps=self.total_steps,
            tolerance=self.tolerance,
        )

    def state_dict(self) -> dict[str, Any]:
        """Return everything that was counted, in plain Python objects that JSON can hold."""
        return {"schema": SCHEMA, **self._counting.state(), "acting": self._acting.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state that `state_dict` gave; raises `UsageError` on anything else.

        The settings stay this monitor's own. No step of the state is counted again.
        """
        if not isinstance(state, Mapping) or state.get("schema") != SCHEMA:
            raise UsageError("this is no state of a Monitor (state_dict of schema 1)")
        try:
            counting = self._counting.restored(state)
            self._acting.restore(state["acting"])
        except (KeyError, TypeError, ValueError, AttributeError) as fault:
            raise UsageError(f"this state of a Monitor is damaged ({fault!r})") from None
        self._counting, self._post.due = counting, None

    def flush(self) -> None:
        """Send the row of the last step to the sinks, without waiting for them."""
        with self.faults.shield("send its numbers", "a row is missing"):
            self._post.send(self.metrics, self._acting.fetch_news)

    def close(self, wait: float | None = None) -> None:
        """Send what is due and let the sinks finish, for at most `wait` seconds each."""
        self.flush()
        self._post.close(wait)
        atexit.unregister(self.close)
