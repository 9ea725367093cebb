"""Settings of dynamic sampling, read from a configuration that lies beside a log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from buttress.logs.builder import RolloutBuilder
from buttress.logs.selection import Selection

_SUFFIXES = (".yaml", ".yml", ".json")
_HIDDEN = ".hydra/config.yaml"  # where Hydra, and verl with it, writes what a run was started with
_LARGEST, _MOST = 1 << 20, 64  # bytes of a file, files of a folder
_ASSIGNED = re.compile(r"^[+~]{0,2}([A-Za-z_][\w.]*)=(.*)$")
_OFF = {"false", "null", "none", "off", "no", "~", ""}


class _Names(NamedTuple):
    """The ends of the names under which one trainer keeps its settings."""

    switch: str
    needed: str
    batch: str | None  # None where it is `needed`, or `needed` times a factor
    factor: str | None
    limit: str


_TRAINERS = (
    # the DAPO recipe of verl
    _Names(
        "filter_groups.enable",
        "train_batch_size",
        "gen_batch_size",
        None,
        "max_num_gen_batches",
    ),
    # NeMo-RL
    _Names(
        "grpo.use_dynamic_sampling",
        "grpo.num_prompts_per_step",
        None,
        "grpo.batch_multiplier",
        "grpo.dynamic_sampling_max_gen_batches",
    ),
    # SkyRL
    _Names(
        "dynamic_sampling.type",
        "trainer.train_batch_size",
        None,
        None,
        "dynamic_sampling.max_sample_batches",
    ),
)


def note_settings(found: Selection, builder: RolloutBuilder) -> None:
    """Note the settings of dynamic sampling, and take the files that hold them off the unknown."""
    told = []
    for path in _candidates(found):
        facts = _facts(path)
        if facts is not None:
            told.append((path, facts))
    found.unknown = [path for path in found.unknown if path not in {path for path, _ in told}]
    known = {tuple(sorted(facts.items())) for _, facts in told if facts}
    if len(known) == 1:
        builder.note(**dict(known.pop()))
        builder.infer(f"dynamic sampling: its settings are those of {told[0][0]}")
    elif len(known) > 1:
        where = ", ".join(str(path) for path, _ in told)
        builder.infer(f"dynamic sampling: {where} disagree about its settings; none were taken")


def settings_of(text: str) -> dict[str, str]:
    """Return the settings of a JSON or YAML file, or of overrides, under dotted names.

    Of YAML it reads nested mappings of plain values, which is how trainers write their resolved
    configuration; anything else in it is passed over. ``value`` levels (W&B) are left out.

    Examples
    --------
    >>> settings_of("data:\\n  gen_batch_size: 48  # prompts\\n- algorithm.eps=0.2")
    {'data.gen_batch_size': '48', 'algorithm.eps': '0.2'}
    >>> settings_of('{"data": {"value": {"gen_batch_size": 48}}}')
    {'data.gen_batch_size': '48'}
    """
    try:
        pairs: Iterable[tuple[str, str]] = list(_flat(msgspec.json.decode(text.encode())))
    except (msgspec.MsgspecError, RecursionError):
        pairs = _lines(text)
    return {re.sub(r"\.value\b", "", name): value for name, value in pairs}


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _flat(one, f"{name}.{key}" if name else str(key))
    else:
        yield name, "null" if value is None else str(value)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        stripped = line.strip()
        if assigned := _ASSIGNED.match(stripped.removeprefix("- ").rstrip(" \\")):
            yield assigned[1], assigned[2].strip("'\"")
            continue
        key, colon, value = stripped.partition(":")
        if not colon or stripped.startswith(("#", "-")):
            continue
        indent = len(line) - len(line.lstrip())
        while above and above[-1][0] >= indent:
            above.pop()
        key, value = key.strip("'\" "), value.split(" #")[0].strip("'\" ")
        name = ".".join([*(one for _, one in above), key])
        if value and not value.startswith(("{", "&")):
            yield name, value
        else:
            above.append((indent, key))


def _candidates(found: Selection) -> Iterator[Path]:
    seen = set()
    rollouts = [path for reader, paths in found.taken.values() for path in paths]
    folders = dict.fromkeys(parent for path in rollouts for parent in list(path.parents)[:2])
    near = [folder / _HIDDEN for folder in list(folders)[:_MOST]]
    near += [folder / f"config{suffix}" for folder in list(folders)[:_MOST] for suffix in _SUFFIXES]
    for path in [*(one for one in found.unknown if one.suffix in _SUFFIXES), *near]:
        if path not in seen:
            seen.add(path)
            yield path


def _facts(path: Path) -> dict[str, int] | None:
    """Return the settings in a file: none where it says that they are off, None without any."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return None
        known = settings_of(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    found = None
    for names in _TRAINERS:
        limit = _ending(known, names.limit)
        if limit is None:
            continue
        found = found or {}
        switch = _ending(known, names.switch)
        if switch is not None and switch.lower() in _OFF:
            continue
        needed = _whole(_ending(known, names.needed))
        factor = _number(_ending(known, names.factor)) if names.factor else None
        batch = _whole(_ending(known, names.batch)) if names.batch else None
        batch = batch or (round(needed * factor) if needed and factor else needed)
        given = {
            "live_groups": needed,
            "generation_batch": batch,
            "max_generation_batches": _whole(limit),
        }
        found = {name: value for name, value in given.items() if value}
    return found


def _ending(known: dict[str, str], end: str | None) -> str | None:
    """Return the value of the name that ends so, by whole levels; the last one of several."""
    names = [name for name in known if f".{name}".endswith(f".{end}")]
    return known[names[-1]] if names else None


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _whole(text: str | None) -> int | None:
    number = _number(text)
    return int(number) if number is not None and 0 < number < 1 << 31 else None
