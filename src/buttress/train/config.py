"""What a training is: typed settings, read from TOML and flags, checked before anything is loaded.

::

    model = "Qwen/Qwen2.5-Math-1.5B"      # hub name or local path
    out = "runs/avspo"
    steps = 500
    prompts = 8                           # per generation, over all ranks
    group_size = 8
    reward = "math"
    remedy = { name = "avspo", alpha = 0.5 }

    [data]
    path = "level3-500.jsonl"             # hub name or local path
    prompt = "problem"

    [trainer]                             # any field of TRL's GRPOConfig
    learning_rate = 1e-6
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from buttress.errors import UsageError
from buttress.remedies.registry import ESTIMATOR_KINDS, create, names, page
from buttress.train.source import Key, Source

REMEDY_KINDS = (*ESTIMATOR_KINDS, "reward", "loss")
REWARDS = ("math", "exact", "gym")
_FUNCTION = re.compile(r"[^:]+:[A-Za-z_]\w*")
_OPTIONS = "options"


class Data(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the problems come from: a hub name, a local file or a procedure, and its columns.

    Attributes
    ----------
    path, subset, split, revision
        As `buttress.train.problems.data.load_problems` reads them.
    prompt, answer, choices
        Columns; by default the first that the data set has of the usual names.
    system
        Text of the system message.
    template
        Text around the problem, with ``{prompt}`` in it.
    limit
        Use the first so many rows only.
    chat
        Wrap prompts as messages; by default where the model has a chat template.
    """

    path: str
    subset: str | None = None
    split: str = "train"
    revision: str | None = None
    prompt: str | None = None
    answer: str | None = None
    choices: str | None = None
    system: str | None = None
    template: str = "{prompt}"
    limit: int | None = None
    chat: bool | None = None


class Reward(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One reward function: ``math``, ``exact``, ``gym`` or ``module:function``.

    `name` is what logs call it, `weight` its weight in the sum, `options` go to the function.
    """

    use: str
    name: str | None = None
    weight: float = 1.0
    options: dict[str, Any] = {}


class Choice(msgspec.Struct, frozen=True):
    """A name of the catalogue of remedies and its options."""

    name: str
    options: dict[str, Any] = {}

    def make(self) -> Any:
        """Return the object that the name stands for."""
        return create(self.name, **self.options)


class Training(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decides a training.

    Attributes
    ----------
    model
        Hub name, local directory or GGUF file.
    data, reward
        Problems, and how completions are judged.
    out
        Directory of the run: rollouts, checkpoints, the model at the end.
    steps
        Optimizer steps.
    seed
        Of the weights of adapters, the order of the problems and the sampling.
    prompts, group_size
        Each generation is of `prompts` groups of `group_size` completions, over all ranks.
    updates
        Optimizer steps that share one generation; above 1 they are off-policy.
    remedy, loss, sampling
        From ``buttress remedies``.
    belief
        ``module:function`` that asks the policy for the right answer, as `grpo_vps` needs it; see
        `buttress.hooks.trl.attach`.
    stop
        Texts of one token each, such as a line break, that end a completion.
    train_only
        Regular expressions; only parameters whose name one of them matches are trained.
    lora
        Fields of peft's LoraConfig.
    trainer
        Fields of TRL's GRPOConfig.
    monitor
        Options of `buttress.Monitor`, with `policies` as a list of tables; false for none.
    """

    model: str
    data: Data
    out: str
    reward: tuple[Reward, ...]
    steps: int = 500
    seed: int = 42
    prompts: int = 8
    group_size: int = 8
    updates: int = 1
    remedy: Choice = Choice("grpo")
    loss: Choice | None = None
    sampling: Choice | None = None
    belief: str | None = None
    stop: tuple[str, ...] = ()
    train_only: tuple[str, ...] = ()
    lora: dict[str, Any] | None = None
    trainer: dict[str, Any] = {}
    monitor: bool | dict[str, Any] = True

    @property
    def rows(self) -> int:
        """Completions of one generation, over all ranks."""
        return self.prompts * self.group_size

    def record(self) -> dict[str, Any]:
        """Return the settings in plain objects that JSON can hold."""
        return msgspec.to_builtins(self)


def load(source: Source) -> Training:
    """Return the settings of a source.

    Raises
    ------
    UsageError
        For an unknown name (with the nearest one), a value of another type or out of range; the
        message starts with the file and the line, or with the flag.
    """
    values = _normal(source)
    _check_names(source, values)
    try:
        config = msgspec.convert(values, Training)
    except msgspec.ValidationError as fault:
        raise _mistyped(source, str(fault)) from None
    _check_ranges(source, config)
    _check_rewards(source, config)
    _check_choice(source, ("remedy",), config.remedy, REMEDY_KINDS)
    _check_choice(source, ("loss",), config.loss, ("loss",))
    _check_choice(source, ("sampling",), config.sampling, ("sampling",))
    if config.loss is not None and page(config.remedy.name).kind == "loss":
        message = f"remedy {config.remedy.name!r} is a loss already; name the advantages beside it"
        raise source.fault(("remedy",), message)
    return config


def _normal(source: Source) -> dict[str, Any]:
    """Return the values with short forms written out."""
    values = dict(source.values)
    if isinstance(values.get("data"), str):
        values["data"] = {"path": values["data"]}
    if "reward" in values:
        given = values["reward"] if isinstance(values["reward"], list) else [values["reward"]]
        values["reward"] = [{"use": one} if isinstance(one, str) else one for one in given]
    for name in ("remedy", "loss", "sampling"):
        if name in values:
            values[name] = _choice(source, name, values[name])
    return values


def _choice(source: Source, name: str, given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        return {"name": given}
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        message = f'{name} is a name, {name} = "..." or a table with a name and options'
        raise source.fault((name,), message)
    return {
        "name": given["name"],
        _OPTIONS: {one: value for one, value in given.items() if one != "name"},
    }


def _check_names(source: Source, values: Mapping[str, Any]) -> None:
    source.check_names((), values, Training.__struct_fields__)
    if isinstance(values.get("data"), dict):
        source.check_names(("data",), values["data"], Data.__struct_fields__)
    for number, one in enumerate(values.get("reward", ())):
        if isinstance(one, dict):
            source.check_names(("reward", str(number)), one, Reward.__struct_fields__)
    for name, what in (("model", "a model"), ("data", "problems"), ("reward", "a reward")):
        if name not in values:
            raise UsageError(f"a training needs {what}: set {name}, in the file or by --{name}")
    if "out" not in values:
        raise UsageError("a training needs a directory: set out, in the file or by --out")


def _mistyped(source: Source, message: str) -> UsageError:
    """Return msgspec's error under the name that the user wrote."""
    text, _, path = message.partition(" - at `$")
    key = tuple(part for part in re.split(r"[.\[\]`]+", path) if part not in ("", "..."))
    if _OPTIONS in key[:2]:
        key = tuple(part for part in key if part != _OPTIONS)
    return source.fault(key, f"{'.'.join(key)}: {text[:1].lower()}{text[1:]}")


def _check_ranges(source: Source, config: Training) -> None:
    lowest = {"steps": 1, "seed": 0, "prompts": 1, "group_size": 2, "updates": 1}
    for name, low in lowest.items():
        if getattr(config, name) < low:
            message = f"{name} must be {low} or more; got {getattr(config, name)}"
            raise source.fault((name,), message)
    if config.data.limit is not None and config.data.limit < 1:
        raise source.fault(("data", "limit"), f"limit must be 1 or more; got {config.data.limit}")
    if "{prompt}" not in config.data.template:
        raise source.fault(("data", "template"), "the template needs {prompt} where the problem is")
    for pattern in config.train_only:
        try:
            re.compile(pattern)
        except re.error as fault:
            message = f"train_only: {pattern!r} is no regular expression: {fault}"
            raise source.fault(("train_only",), message) from None


def _check_rewards(source: Source, config: Training) -> None:
    if not config.reward:
        raise source.fault(("reward",), "a training needs at least one reward")
    for number, reward in enumerate(config.reward):
        key: Key = ("reward", str(number), "use")
        if reward.use not in REWARDS and not _FUNCTION.fullmatch(reward.use):
            known = [*REWARDS, "module:function"]
            raise source.fault(key, str(UsageError.unknown("reward", reward.use, known)))
    given = [reward.name or reward.use for reward in config.reward]
    if len(set(given)) < len(given):
        raise source.fault(("reward",), f"two rewards have one name ({', '.join(given)}); set name")


def _check_choice(source: Source, key: Key, choice: Choice | None, kinds: tuple[Any, ...]) -> None:
    if choice is None:
        return
    known = names(*kinds)
    if choice.name in names("sampling") and key != ("sampling",):
        message = f'{choice.name} is a way of sampling: set sampling = "{choice.name}"'
        raise source.fault(key, message)
    if choice.name not in known:
        raise source.fault(key, str(UsageError.unknown(key[0], choice.name, known)))
    try:
        choice.make()
    except UsageError as fault:
        about = re.findall(r"\w+", re.split(" Did you mean| Known:", str(fault))[0])
        named = next((option for option in choice.options if option in about), None)
        raise source.fault((*key, named) if named else key, str(fault)) from None
