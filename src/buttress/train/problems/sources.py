"""Where problems come from: a file, a folder, the hub, or reasoning-gym."""

from __future__ import annotations

import glob
import json
from pathlib import Path
from typing import Any

from buttress.errors import InputError, MissingExtraError, UsageError
from buttress.train.problems import hub
from buttress.train.problems.tables import Table, read_table


def load_table(
    name: str, *, subset: str | None, split: str, revision: str | None, limit: int | None
) -> Table:
    """Return the rows of a data set as they stand; see `data.load_problems` for the arguments."""
    if name.startswith("gym:"):
        return _made(name)
    path = Path(name).expanduser()
    if path.is_file() or (glob.has_magic(name) and not path.exists()):
        return read_table(name)
    if not path.is_dir() and looks_local(name):
        raise InputError(
            f"no such file or folder: {name}{_from_here(path)}; give a JSONL, CSV or Parquet "
            "file, or the name of a data set of the hub, for example openai/gsm8k"
        )
    return _from_hub(name, subset=subset, split=split, revision=revision, limit=limit)


def _from_here(path: Path) -> str:
    """Return from where a relative path was looked for, since a recipe may lie elsewhere."""
    return "" if path.is_absolute() else f" (seen from {Path.cwd()})"


def looks_local(name: str) -> bool:
    """Return whether a name can only mean a path: hub names have one slash and no suffix of a file.

    >>> looks_local("Qwen/Qwen2.5-0.5B"), looks_local("./model"), looks_local("data.jsonl")
    (False, True, True)
    """
    suffixes = (".jsonl", ".json", ".csv", ".tsv", ".parquet", ".gz", ".zst", ".gguf")
    return (
        name.startswith(("/", "./", "../", "~"))
        or name.count("/") > 1
        or (name.lower().endswith(suffixes))
    )


def _from_hub(
    name: str, *, subset: str | None, split: str, revision: str | None, limit: int | None
) -> Table:
    path = Path(name).expanduser()
    place = str(path) if path.is_dir() else name
    if not path.is_dir():
        hub.online()
    try:
        import datasets
    except ImportError:
        raise MissingExtraError.of("a data set of the hub", "hub") from None
    saved = next((one for one in (path, path / split) if (one / "state.json").is_file()), None)
    try:
        if saved:
            found = datasets.load_from_disk(str(saved))
        else:
            found = datasets.load_dataset(place, subset, split=split, revision=revision)
    except Exception as fault:
        raise _unloaded(name, path, fault) from fault
    count = len(found) if limit is None else min(limit, len(found))
    rows = [found[at] for at in range(count)]
    return Table(rows, [f"{name} row {at}" for at in range(count)], tuple(found.column_names))


def _unloaded(name: str, path: Path, fault: Exception) -> InputError:
    text = str(fault)
    if path.is_dir() or isinstance(fault, ValueError):
        # a wrong split or subset: `datasets` names those that there are
        return InputError(f"cannot load the data set {name}: {text.strip().splitlines()[0]}")
    return hub.data_missing(name, fault)


def _made(name: str) -> Table:
    """Return problems of reasoning-gym: ``gym:TASK?size=100&seed=1&OPTION=VALUE``."""
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError:
        raise MissingExtraError.of("a task of reasoning-gym", "gym") from None
    task, _, query = name.removeprefix("gym:").partition("?")
    if task not in DATASETS:
        raise UsageError.unknown("task of reasoning-gym", task, DATASETS)
    options = {"size": 500, "seed": 0}
    for pair in filter(None, query.split("&")):
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise UsageError(f"{name}: options are OPTION=VALUE, joined by &; got {pair!r}")
        options[key] = _value(value)
    try:
        entries = list(reasoning_gym.create_dataset(task, **options))
    except (AssertionError, TypeError, ValueError) as fault:
        raise UsageError(f"{name}: reasoning-gym refuses the options: {fault}") from None
    places = [f"{name} row {at}" for at in range(len(entries))]
    return Table(entries, places, ("question", "answer", "metadata"))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
