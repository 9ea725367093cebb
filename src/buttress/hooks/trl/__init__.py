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

What a remedy does here depends on its kind in ``buttress remedies``:

========== ======================================================================================
advantage  replaces the advantages, one per rollout
token      replaces the advantages, one per token
reward     an internal reward stands in for the trainer's; GRPO makes the advantages of it. The
           trainer's own rewards are logged and diagnosed as before, and train nothing
loss       replaces the loss, and the advantages by those that its paper pairs with it: ``dr_grpo``
           for dr_grpo_loss, ``dcpo`` for dcpo_clip, ``mcpo`` for mcpo_hinge_kl, else ``grpo``;
           ``loss=`` puts it beside another remedy
sampling   is refused: TRL draws its prompts before a hook can see them; ``buttress train`` has a
           trainer that can
========== ======================================================================================

TRL has no hook for any of that, so some of its methods are overridden: one keeps the matrix of
rewards, one replaces ``output["advantages"]`` before the batch is shuffled and split, one computes
the loss. Every private name that is touched is listed in `trl_checks` and `trl_loss_checks`.

Cost: an advantage or a loss costs next to nothing. A remedy that looks at tokens (kind token,
``edge_grpo``, ``rent``) costs one more forward pass without gradient over each generation;
``intuitor`` does too, with the logits of one micro-batch in memory; ``grpo_vps`` costs what
`belief` does besides.

What arrives in the trackers, next to TRL's own metrics (shares of the groups with two or more
scorable rollouts): ``buttress/acr``, ``buttress/all_wrong``, ``buttress/all_correct`` by the
rewards, ``buttress/acr_after`` by the new advantages, ``buttress/fallback`` (1 where TRL's own
advantages had to be used), ``buttress/loss_fallback`` (the same of the loss) and what the remedy
says of itself, such as ``buttress/threshold``. A loss logs what TRL's does: ``entropy``, ``kl``
with a reference, ``clip_ratio/*`` or ``cispo_clip_ratio``. In evaluation the advantages stay TRL's
and only the first three are reported, beside the loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from buttress.errors import UsageError
from buttress.hooks.trl.attachment import Attachment

if TYPE_CHECKING:
    from trl import GRPOTrainer as _Base
else:
    _Base = object

T = TypeVar("T")


class ButtressGRPOMixin(_Base):
    """GRPOTrainer with a remedy: ``class MyTrainer(ButtressGRPOMixin, GRPOTrainer)``.

    Parameters
    ----------
    remedy, monitor, loss, belief
        As in `attach`.
    remedy_options
        Options of a remedy that is given by name.
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
        loss: Any = None,
        belief: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._buttress = Attachment(
            self, remedy, monitor, dict(remedy_options or {}), loss=loss, belief=belief
        )

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
        if self._buttress is not None:
            self._buttress.prepare(self)
        output = super()._generate_and_score_completions(inputs)
        if self._buttress is not None:
            self._buttress.apply(self, rows, output)
        return output

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        loss = None
        if self._buttress is not None:
            loss = self._buttress.compute_loss(self, model, inputs)
        return super()._compute_loss(model, inputs) if loss is None else loss

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        if self._buttress is not None:
            logs.update(self._buttress.log_line(self))
        super().log(logs, *args, **kwargs)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        # before trainer_state.json, which comes last: a checkpoint that has it can be resumed from
        if self._buttress is not None:
            self._buttress.save(self, trial)
        super()._save_checkpoint(model, trial)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if self._buttress is not None:
            self._buttress.load(self, checkpoint)


def attach(
    trainer: T,
    remedy: Any = "avspo",
    monitor: Any = None,
    *,
    loss: Any = None,
    belief: Any = None,
    **options: Any,
) -> T:
    """Give a live `trl.GRPOTrainer` a remedy and return it.

    The class of the instance becomes a subclass of its own with `ButtressGRPOMixin` in front, so
    that overrides of the user's class keep working below it. What each kind of remedy replaces from
    the next generation on is in the table of this module. The remedy's state is saved and resumed
    with the checkpoints (``checkpoint-N/buttress_state.json``). A fault of the remedy during
    training is one warning, and TRL's own advantages, or its own loss, are used.

    Parameters
    ----------
    trainer
        An instance of `trl.GRPOTrainer` or of a subclass.
    remedy
        A name in ``buttress remedies``, or an object of the catalogue (an estimator, a `Loss`, an
        internal reward).
    monitor
        A `buttress.Monitor`. It sees the generations of all ranks, with prompt ids and the columns
        ``length``, ``truncated``, ``reward/<name>``, ``advantage`` (and ``entropy`` where the
        remedy asked for it). Its numbers stand in the log lines of training, under the names of
        `Monitor.metrics` unless TRL's mean over the logging steps has that name; its state is saved
        and resumed with the checkpoints; what its policies ask for is done: ``stop`` finishes the
        optimizer step, saves a checkpoint and ends the run, `Switch` and `Sampling` take effect
        with the next generation. Any other object with ``update(groups, step=...)`` is called in
        the same place, on the main process.
    loss
        A loss beside the advantages of `remedy`: its name, or a `Loss` object with its options,
        ``attach(trainer, "avspo", loss="sapo")``. Its KL weight and its completion cap are those of
        GRPOConfig (``beta``, ``max_completion_length``). Where micro-batches or ranks split a step,
        denominators are TRL's: tokens are counted over the whole step, responses by micro-batch;
        ``denominator="signal"`` counts both over the whole step, and ``seq_sum_token_mean`` sums
        over the whole step. The hinge of ``mcpo_hinge_kl`` is divided by the mastered responses of
        the whole step.
    belief
        For ``grpo_vps``: ``belief(trainer, rows, output, ends) -> (belief, prior)``, called on
        every rank with its own rows of the data set, what TRL made of them (``prompt_ids``,
        ``completion_ids``, ... as tensors) and a bool tensor ``(row, token)``, True where a segment
        of the completion ends. `belief` of the same shape holds there the probability of the row's
        reference answer once that token is written (NaN for unknown; other places are not looked
        at), `prior` of shape ``(row,)`` the same before the first token.
    options
        Of a remedy that is given by name.

    Raises
    ------
    UsageError
        Where the configuration is wrong: another trainer, a second attachment, an unknown remedy or
        option, a setting of TRL that the remedy would undo, or something that it needs and TRL does
        not have: ``ep_grpo`` a reference model (``beta`` above 0), ``grpo_vps`` a `belief`. With a
        loss also a feature of TRL's loss that it does not know (the importance correction for vLLM,
        ``top_entropy_quantile``, the off-policy mask, the entropy bonus, the router loss of a
        mixture of experts) and settings of TRL's loss that say something else than its options.
    """
    if getattr(trainer, "_buttress", None) is not None:
        raise UsageError(
            f"this {type(trainer).__name__} has a remedy already; build a new trainer to change it"
        )
    attachment = Attachment(trainer, remedy, monitor, options, loss=loss, belief=belief)
    kind = type(trainer)
    trainer.__class__ = type(f"Buttress{kind.__name__}", (ButtressGRPOMixin, kind), {})
    vars(trainer)["_buttress"] = attachment
    return trainer
