"""What becomes of the advantages downstream: lost, explained, drowned or diluted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from buttress.groups import Scalar
from buttress.rules import thresholds as at
from buttress.rules.case import Case
from buttress.rules.causes import collapse_severity
from buttress.rules.finding import Advice, Finding, Severity
from buttress.rules.log_lines import ZERO_STD, lines_of
from buttress.rules.rule import Rule, rule

UNMASK = Advice(
    "check the loss mask: with mask_truncated_completions every truncated rollout is left out",
    "a batch that is all mask has no gradient",
    "none",
)
TRAINABLE = Advice(
    "check that parameters are trainable and are those that the optimiser holds (adapters, frozen "
    "weights, a model wrapped after the optimiser was built)",
    "the loss then reaches nothing that can move",
    "minutes",
)
SCHEDULE = Advice(
    "check the learning rate schedule: its value at these steps, warm-up, number of steps",
    "a rate of zero multiplies every update by zero, whatever grad_norm says",
    "none",
)
PRECISION = Advice(
    "check for skipped steps of the fp16 loss scaler",
    "an overflow skips the update and says so only in its own counter",
    "none",
)
DENOMINATOR = Advice(
    "divide by the tokens of mixed groups only, or replace tied groups while sampling",
    "the step size then no longer follows the ACR",
    "larger steps at a high ACR: retune the learning rate",
)
FIX_TIES_FIRST = Advice(
    "lift the collapse first, or set beta to 0 while groups are tied",
    "the KL term alone only pulls the policy back to the reference",
    "none",
)


@rule("update-lost", "BT601")
def update_lost(this: Rule, case: Case) -> Iterator[Finding]:
    """Groups have advantages, but no update comes of them.

    What it sees
        grad_norm of zero in log lines of steps with mixed groups (an error from nine in ten on, a
        warning from half on), or a learning rate of zero throughout. Without rollouts a line counts
        as live by frac_reward_zero_std below 1 and reward_std above 0.
    Why it matters
        It looks like collapse and is not: the signal is there and is lost downstream.
    How sure
        grad_norm is measured before the learning rate, so it shows frozen parameters and masks but
        not a rate of zero; that is read from learning_rate. A fault that leaves both above zero
        (an optimiser that holds other parameters) cannot be seen here.
    What to do
        Look at masks, trainable parameters and the schedule.
    When to ignore
        In a dry run.
    References
        Our own rule.
    """
    grad, rate = lines_of(case, "grad_norm"), lines_of(case, "learning_rate")
    if grad and grad.live.sum() >= at.OPTIMISER_STEPS:
        zero = np.abs(grad.scalar.value[grad.live]) <= at.GRAD_ZERO
        if zero.mean() >= 0.5:
            capped = case.length_cap is not None and case.length_cap.share >= at.CLIPPED_STEP
            still = rate is not None and (rate.scalar.value == 0).mean() >= at.OPTIMISER_SHARE
            yield this.finding(
                Severity.ERROR if zero.mean() >= at.OPTIMISER_SHARE else Severity.WARNING,
                f"grad_norm is 0 in {zero.sum()} of {len(zero)} log lines whose groups have "
                "advantages: not collapse, the update is lost downstream"
                + ("; learning_rate is 0 too" if still else ""),
                {
                    "lines": len(zero),
                    "zero": int(zero.sum()),
                    "seen_in": "grad_norm",
                    "learning_rate_zero": still,
                },
                ([SCHEDULE] if still else [])
                + ([UNMASK] if capped else [])
                + [TRAINABLE, *([] if capped else [UNMASK]), PRECISION],
                _span(grad.scalar),
            )
            return
    if rate and rate.live.sum() >= at.OPTIMISER_STEPS:
        values = rate.scalar.value
        if (values == 0).mean() >= at.OPTIMISER_SHARE:
            yield this.finding(
                Severity.ERROR,
                f"learning_rate is 0 in {(values == 0).sum()} of {len(values)} log lines: every "
                "gradient is multiplied by zero",
                {
                    "lines": len(values),
                    "zero": int((values == 0).sum()),
                    "seen_in": "learning_rate",
                },
                [SCHEDULE],
                _span(rate.scalar),
            )


@rule("loss-zero-normal", "BT602")
def loss_zero_normal(this: Rule, case: Case) -> Iterator[Finding]:
    """A loss of zero beside healthy groups is normal.

    What it sees
        A loss of about 0 in the median line, with groups that are mostly mixed and a grad_norm
        that is not zero (or not logged).
    Why it matters
        On policy every importance ratio is 1 and advantages sum to zero in each group, so the loss
        is 0 while its gradient is not. It is the first thing that people report as a fault.
    How sure
        Sure where grad_norm is logged.
    What to do
        Nothing. Watch the ACR, grad_norm and the reward instead of the loss.
    When to ignore
        Always, once known.
    References
        Equation 2 of arXiv 2605.21125: advantages are centred. Explained in TRL's documentation.
    """
    loss, grad = case.run.scalar("loss"), case.run.scalar("grad_norm")
    if loss is None or len(loss.value) < at.OPTIMISER_STEPS:
        return
    if not np.median(np.abs(loss.value)) <= at.LOSS_ZERO:
        return
    tied = _tied_share(case)
    moving = float(np.median(grad.value)) if grad else None
    if not tied < at.ACR_DEAD or (moving is not None and moving <= at.GRAD_ZERO):
        return
    yield this.finding(
        Severity.INFO,
        "the loss is 0 and that is normal: centred advantages cancel on policy, their gradient "
        f"does not{'' if moving is None else f' (median grad_norm {moving:.3g})'}",
        {
            "median_loss": float(np.median(loss.value)),
            "median_grad_norm": moving,
            "tied_share": tied,
            "lines": len(loss.value),
        },
        (),
        _span(loss),
    )


@rule("kl-only-gradient", "BT603")
def kl_only_gradient(this: Rule, case: Case) -> Iterator[Finding]:
    """All groups are tied and the gradient comes from the KL term alone.

    What it sees
        Log lines of steps in which every group is tied, with a grad_norm above zero and a logged kl
        above zero. A warning when nearly all lines are such, else an info.
    Why it matters
        grad_norm looks alive. The policy is only pulled back towards the reference.
    How sure
        Silent where tied groups have logged advantages, which would explain the gradient too. An
        entropy bonus has the same effect; with both, the log cannot tell them apart.
    What to do
        Treat the collapse; the KL term is not the fault.
    When to ignore
        When only single steps are such.
    References
        TRL pull requests 5777 and 7068.
    """
    kl, grad = case.run.scalar("kl"), lines_of(case, "grad_norm")
    if kl is None or grad is None or not np.median(kl.value) > 0:
        return
    logged = case.logged
    if logged is not None and (case.summary.tied & (logged.size > at.PHANTOM_NOISE)).any():
        return
    judged = int((grad.dead | grad.live).sum())
    moving = grad.dead & (grad.scalar.value > at.GRAD_ZERO)
    if grad.dead.sum() < at.OPTIMISER_STEPS or moving.sum() < at.OPTIMISER_SHARE * grad.dead.sum():
        return
    share = float(moving.sum()) / judged
    yield this.finding(
        Severity.WARNING if share >= at.ACR_DEAD else Severity.INFO,
        f"in {moving.sum()} of {judged} log lines every group is tied, yet grad_norm is "
        f"{np.median(grad.scalar.value[moving]):.3g}: the KL term alone moves the policy",
        {
            "lines": judged,
            "all_tied": int(grad.dead.sum()),
            "median_grad_norm": float(np.median(grad.scalar.value[moving])),
            "median_kl": float(np.median(kl.value)),
        },
        [FIX_TIES_FIRST],
        _span(grad.scalar),
    )


@rule("diluted-loss", "BT604")
def diluted_loss(this: Rule, case: Case) -> Iterator[Finding]:
    """Tied groups sit in the denominator of the loss.

    What it sees
        A collapsed run that still has mixed groups: the share of rollouts (of tokens where lengths
        are known) in tied groups, which is how much smaller the step is where the loss divides by
        all of them.
    Why it matters
        The step size follows the ACR: it shrinks where signal is rare and jumps when it returns.
    How sure
        The log does not show the loss. TRL's dapo, cispo and vespo and verl's token-mean count
        every token of the batch.
    What to do
        Divide by the tokens of mixed groups, or replace tied groups.
    When to ignore
        With an optimiser that is indifferent to the scale (Adam, where every step is alike).
    References
        TRL issue 6367; DAPO, arXiv 2503.14476, on the token-level loss.
    """
    severity = collapse_severity(case) if len(case.groups) else None
    if severity is None or severity < Severity.WARNING or not case.counts.mixed:
        return
    spent, unit = case.spent, "rollouts"
    share = spent.wasted / max(spent.wasted + spent.useful, 1)
    if spent.counted == spent.rollouts and spent.tokens:
        share, unit = spent.wasted_tokens / spent.tokens, "tokens"
    acr = case.steps.acr[np.isfinite(case.steps.acr)]
    yield this.finding(
        Severity.INFO,
        f"{share:.0%} of the {unit} stand in tied groups: a loss that divides by all of them takes "
        f"steps of {1 - share:.0%} of the size",
        {
            "share": share,
            "unit": unit,
            "step_acr_low": float(np.quantile(acr, 0.1)),
            "step_acr_high": float(np.quantile(acr, 0.9)),
        },
        [DENOMINATOR],
        case.span(),
    )


def _tied_share(case: Case) -> float:
    if len(case.groups):
        return case.acr
    found = case.run.scalar(ZERO_STD)
    return float(found.value.mean()) if found else float(np.nan)


def _span(scalar: Scalar) -> tuple[int, int]:
    return int(scalar.step[0]), int(scalar.step[-1])
