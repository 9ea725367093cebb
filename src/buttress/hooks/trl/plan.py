"""What a name of the catalogue stands for inside TRL: an estimator, a reward, a loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from buttress.errors import UsageError
from buttress.hooks.trl.checks import build_estimator, check_belief, check_settings
from buttress.hooks.trl.loss_checks import bound_loss
from buttress.hooks.trl.tokens import Belief, asked
from buttress.remedies.internal import Intuitor, Rent
from buttress.remedies.losses import Loss
from buttress.remedies.registry import create, names, page


@dataclass(frozen=True, eq=False)
class Plan:
    """What is done to a trainer.

    Attributes
    ----------
    estimator
        Gives the advantages.
    reward
        An internal reward that stands in for the trainer's, or None.
    loss
        Takes the place of the trainer's loss, or None.
    belief
        What the user gave to ask for the belief in an answer, or None.
    asks
        Token columns that a generation must bring.
    """

    estimator: Any
    reward: Any = None
    loss: Loss | None = None
    belief: Belief | None = None

    @property
    def asks(self) -> tuple[str, ...]:
        return asked(self.estimator, self.reward)


def resolve(
    trainer: Any, remedy: Any, options: dict[str, Any], loss: Any = None, belief: Any = None
) -> Plan:
    """Return the plan for a remedy, or raise `UsageError` where it cannot stand in this trainer."""
    check_belief(belief)
    kind, reward = _kind(remedy), None
    if kind == "sampling":
        raise UsageError(
            f"remedy {remedy!r} chooses what is sampled, and TRL's GRPOTrainer draws its prompts "
            f"before a hook sees them; `buttress train --sampling {remedy}` can choose. "
            "To leave tied groups out of the update here, take attach(trainer, 'filter_drop', "
            "loss=create('dapo', denominator='signal'))"
        )
    if kind == "loss":
        if loss is not None:
            raise UsageError(
                f"remedy {remedy!r} is a loss already; name the advantages that go with loss="
            )
        loss, remedy, options = _made(remedy, options), None, {}
    elif kind == "reward":
        reward, remedy, options = _made(remedy, options), None, {}
    loss = bound_loss(trainer, _loss(loss)) if loss is not None else None
    estimator = build_estimator(trainer, remedy or _paired(loss), options)
    plan = Plan(estimator, reward, loss, belief)
    try:
        check_settings(trainer, remedy or _paired(loss), plan)
    except UsageError as fault:
        if remedy is not None or reward is not None:
            raise
        raise UsageError(
            f"{type(loss).__name__} comes with the advantages of {_paired(loss)!r}, which "
            f"remedy= replaces beside loss=: {fault}"
        ) from None
    return plan


def _kind(remedy: Any) -> str:
    if isinstance(remedy, str):
        return page(remedy).kind
    if isinstance(remedy, Loss):
        return "loss"
    return "reward" if isinstance(remedy, Intuitor | Rent) else "advantage"


def _paired(loss: Loss | None) -> str:
    return "grpo" if loss is None else loss.advantage


def _made(thing: Any, options: dict[str, Any]) -> Any:
    """Return an object of the catalogue, built with these options where it is given by name."""
    if isinstance(thing, str):
        return create(thing, **options)
    if options:
        raise UsageError(
            f"options ({', '.join(options)}) go with the name of a remedy; a "
            f"{type(thing).__name__} object has its own already"
        )
    return thing


def _loss(thing: Any) -> Loss:
    if isinstance(thing, Loss):
        return thing
    if not isinstance(thing, str):
        raise UsageError(f"loss must be a name or a Loss object; got {thing!r}")
    if thing not in names("loss"):
        raise UsageError.unknown("loss", thing, names("loss"))
    return create(thing)
