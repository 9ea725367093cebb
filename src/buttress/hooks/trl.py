"""Remedies inside TRL's GRPOTrainer: advantages replaced, logs and trackers in step.

On a trainer that is built already, of any subclass::

    from buttress.hooks.trl import attach

    trainer = GRPOTrainer(...)
    attach(trainer, remedy="avspo")
    trainer.train()

or as a class of one's own::

    class MyTrainer(ButtressGRPOMixin, GRPOTrainer):
        ...

    MyTrainer(..., remedy="avspo", remedy_options={"threshold": 0.3})

TRL has no hook for advantages, so two of its methods are overridden: one keeps the matrix of
rewards, the other replaces ``output["advantages"]`` before the batch is shuffled and split. Every
private name that is touched is listed in `trl_checks.PRIVATE`, with the release that brought it.

What arrives in the trackers, next to TRL's own metrics (shares of the groups with two or more
scorable rollouts): ``buttress/acr``, ``buttress/all_wrong``, ``buttress/all_correct`` by the
rewards, ``buttress/acr_after`` by the new advantages, ``buttress/fallback`` (1 where TRL's own
advantages had to be used) and what the remedy says of itself, such as ``buttress/threshold``.
In evaluation the advantages stay TRL's and only the first three are reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from buttress.errors import UsageError
from buttress.hooks.trl_attachment import Attachment

if TYPE_CHECKING:
    from trl import GRPOTrainer as _Base
else:
    _Base = object

T = TypeVar("T")


class ButtressGRPOMixin(_Base):
    """GRPOTrainer with a remedy: ``class MyTrainer(ButtressGRPOMixin, GRPOTrainer)``.

    Parameters
    ----------
    remedy
        A name in ``buttress remedies`` or an estimator object.
    remedy_options
        Options of a remedy that is given by name.
    monitor
        An object with ``update(groups, step=...)``; called on the main process after every
        generation of training.
    args, kwargs
        Of the trainer.
    """

    _buttress: Attachment | None = None

    def __init__(
        self,
        *args: Any,
        remedy: Any = "avspo",
        remedy_options: dict[str, Any] | None = None,
        monitor: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._buttress = Attachment(self, remedy, monitor, dict(remedy_options or {}))

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls._calculate_rewards is not ButtressGRPOMixin._calculate_rewards:
            raise UsageError(
                f"{cls.__name__} must see rewards as the trainer uses them: name ButtressGRPOMixin "
                "first among the bases, and override _calculate_rewards in a base after it (or use "
                "attach)"
            )

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Any:
        matrix = super()._calculate_rewards(*args, **kwargs)
        if self._buttress is not None:
            ids = kwargs.get("completion_ids_list", args[3] if len(args) > 3 else None)
            self._buttress.keep(matrix, ids)
        return matrix

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        # before an environment or a rollout function edits the rows
        rows = [dict(row) for row in inputs]
        output = super()._generate_and_score_completions(inputs)
        if self._buttress is not None:
            self._buttress.apply(self, rows, output)
        return output

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        if self._buttress is not None:
            self._buttress.save(self, trial)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if self._buttress is not None:
            self._buttress.load(self, checkpoint)


def attach(trainer: T, remedy: Any = "avspo", monitor: Any = None, **options: Any) -> T:
    """Give a live `trl.GRPOTrainer` a remedy and return it.

    The class of the instance becomes a subclass of its own with `ButtressGRPOMixin` in front, so
    that overrides of the user's class keep working below it. From the next generation on, the
    advantages are the remedy's; the remedy's state is saved and resumed with the checkpoints
    (``checkpoint-N/buttress_state.json``). A fault of the remedy during training is one warning,
    and TRL's own advantages are used.

    Parameters
    ----------
    trainer
        An instance of `trl.GRPOTrainer` or of a subclass.
    remedy
        A name in ``buttress remedies`` or an estimator object.
    monitor
        An object with ``update(groups, step=...)``; called on the main process after every
        generation of training, with prompt ids and the columns ``length``, ``truncated``,
        ``reward/<name>`` and ``advantage``.
    options
        Of a remedy that is given by name.

    Raises
    ------
    UsageError
        Where the configuration is wrong: another trainer, a second attachment, an unknown remedy or
        option, or a setting of TRL that the remedy would undo.
    """
    if getattr(trainer, "_buttress", None) is not None:
        raise UsageError(
            f"this {type(trainer).__name__} has a remedy already; build a new trainer to change it"
        )
    attachment = Attachment(trainer, remedy, monitor, options)
    kind = type(trainer)
    trainer.__class__ = type(f"Buttress{kind.__name__}", (ButtressGRPOMixin, kind), {})
    vars(trainer)["_buttress"] = attachment
    return trainer
