"""Several runs among what the user named: which files belong to which run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from buttress.errors import InputError
from buttress.logs import files
from buttress.logs.reader import ReadOptions
from buttress.logs.sampling import settings_of
from buttress.logs.selection import select

# Folders that are parts of a run and not runs: what a trainer writes, one per rank, step or split.
_PART = re.compile(
    r"""(?ix) \d+ | \.?hydra | outputs? | completions? | rollouts? | rollout_data | generations?
    | samples | dumps? | logs? | metrics | data | files | tensorboard | tb | runs? | events
    | wandb | mlruns | mlartifacts | trackio | (offline-)?run-\d{8}.*
    | all | effective
    | episodes? | [a-z]+_step_\d+_epoch_\d+
    | train(ing)? | val(id(ation)?)? | evals? | evaluation | test
    | (rank|shard|worker|part|node|gpu|proc(ess)?|step|global_step|checkpoint|epoch|split
       |iter(ation)?)s? [-_.]? \d*"""
)
_SEED = re.compile(r"(?i)(?:^|[^a-z0-9])(?:seed|s)[-_=]?(\d{1,9})(?![0-9])")
# Of file names only what is clearly one run per file.
_FILE_RUN = re.compile(r"(?i)(?:^|[^a-z0-9])(?:seed|run)[-_=]?\d{1,9}(?![0-9])")
_SETTINGS = ("config.yaml", "config.json", ".hydra/config.yaml", "trainer_state.json")
_LARGEST = 1 << 20


@dataclass
class RunPaths:
    """The paths of one run.

    Attributes
    ----------
    name
        What tells it from the other runs: the end of its path.
    seed
        The seed that its path or its configuration names; None where neither does.
    left
        Files that may belong to it as well as to another run, and were given to none.
    """

    name: str
    paths: list[str] = field(default_factory=list)
    seed: int | None = None
    left: list[str] = field(default_factory=list)


def split_runs(given: Sequence[str], options: ReadOptions) -> list[RunPaths]:
    """Return the runs among files, directories and patterns; one run where nothing tells several.

    Files of one folder are one run, unless their names say ``seed`` or ``run`` with different
    numbers, or the user named them one by one and they differ by more than a number. Folders below
    a run that its trainer writes (completions, rank_0, step_10, checkpoint-5, val) belong to it; so
    do metrics in a folder above or below the rollouts. Several folders with rollouts are several
    runs.
    """
    found: dict[str, list[Path]] = {}
    of_given: dict[str, set[str]] = {}
    lost: list[str] = []
    apart = _named_apart(given)
    for one in dict.fromkeys(given):
        try:
            paths = files.expand(one)
        except InputError:
            lost.append(one)
            continue
        for path in paths:
            key = _key(path) + (os.sep + _letters(path) if one in apart else "")
            found.setdefault(key, []).append(path)
            of_given.setdefault(one, set()).add(key)
    whole = RunPaths(_named(list(given)), list(given), seed_of(given))
    if len(found) < 2:
        return [whole]
    owner = _owners(found, options)
    if len(set(owner.values())) < 2:
        return [whole]
    return _runs(found, of_given, owner, lost)


def seed_of(paths: Iterable[str | os.PathLike[str]]) -> int | None:
    """Return the seed that paths name, or a configuration beside them; None where they disagree.

    Examples
    --------
    >>> seed_of(["runs/grpo-seed3/rollouts.jsonl"]), seed_of(["runs/s_12"]), seed_of(["steps3"])
    (3, 12, None)
    """
    named = {int(hits[-1]) for path in paths if (hits := _SEED.findall(os.fspath(path)))}
    if named:
        return named.pop() if len(named) == 1 else None
    written = {seed for path in paths if (seed := _written_seed(Path(path))) is not None}
    return written.pop() if len(written) == 1 else None


def _key(path: Path) -> str:
    """Return what the files of one run share: its folder, and its number where they name one."""
    folder = path.absolute().parent
    # MLflow's file store has folders of its own making, down to the parts of a metric's name
    store = next((one for one in (folder, *folder.parents) if one.name == "mlruns"), folder)
    for one in (store, *store.parents):
        if not _PART.fullmatch(one.name):
            break
    number = _FILE_RUN.search(path.name)
    return f"{one}{os.sep}{number[0].strip('-_. ')}" if number else str(one)


def _named_apart(given: Sequence[str]) -> set[str]:
    """Return the files that the user named one by one, where they differ by more than a number."""
    single = [one for one in given if not files.located(one).is_dir() and Path(one).exists()]
    return set(single) if len({_letters(Path(one)) for one in single}) > 1 else set()


def _letters(path: Path) -> str:
    return re.sub(r"[\d_.-]+", "-", path.name.split(".")[0])


def _owners(found: dict[str, list[Path]], options: ReadOptions) -> dict[str, str]:
    """Return the run of each folder; those without rollouts go to the run above or below them."""
    kinds = {key: _kind(paths, options) for key, paths in found.items()}
    rollouts = [key for key, kind in kinds.items() if kind == "rollouts"]
    metrics = [key for key, kind in kinds.items() if kind == "scalars"]
    runs = rollouts or metrics
    if not runs:
        return dict.fromkeys(found, next(iter(found)))
    owner = {key: key for key in runs}
    for key in found:
        if key in owner:
            continue
        near = [run for run in runs if _above(run, key) or _above(key, run)]
        if len(near) == 1 or len(runs) == 1:
            owner[key] = (near or runs)[0]
        elif kinds[key] == "scalars" and not near:
            owner[key] = key
    return owner


def _kind(paths: list[Path], options: ReadOptions) -> str | None:
    selection = select(paths, set(), options)
    for kind in ("rollouts", "scalars"):
        if selection.of_kind(kind):
            return kind
    return None


def _above(folder: str, other: str) -> bool:
    return other.startswith(folder.rstrip(os.sep) + os.sep)


def _runs(
    found: dict[str, list[Path]],
    of_given: dict[str, set[str]],
    owner: dict[str, str],
    lost: list[str],
) -> list[RunPaths]:
    runs: dict[str, RunPaths] = {}
    names = _short(sorted(set(owner.values())))
    for one, keys in of_given.items():
        owners = {owner[key] for key in keys if key in owner}
        for run in sorted(owners, key=lambda key: files.natural(Path(key))):
            held = runs.setdefault(run, RunPaths(names[run]))
            if len(owners) == 1:
                held.paths.append(one)  # as the user named it
            else:
                paths = (path for key in keys if owner.get(key) == run for path in found[key])
                held.paths += [str(path) for path in paths]
    first = next(iter(runs.values()))
    first.paths += lost  # what is not there is a problem, so that it is said
    first.left = [str(path) for key in found if key not in owner for path in found[key]]
    for run, held in runs.items():
        held.seed = seed_of([run]) if _SEED.search(run) else seed_of(held.paths)
    return list(runs.values())


def _short(keys: list[str]) -> dict[str, str]:
    """Return names without what all share."""
    shared = os.path.commonpath(keys)
    return {key: os.path.relpath(key, shared) for key in keys}


def _named(given: list[str]) -> str:
    return given[0] if len(given) == 1 else f"{given[0]} and {len(given) - 1} more"


def _written_seed(path: Path) -> int | None:
    folder = path if path.is_dir() else path.parent
    for one in (folder, *list(folder.parents)[:2]):
        for name in _SETTINGS:
            try:
                file = one / name
                if not file.is_file() or file.stat().st_size > _LARGEST:
                    continue
                known = settings_of(file.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue
            seeds = {value for key, value in known.items() if key.split(".")[-1] == "seed"}
            if len(seeds) == 1 and (seed := seeds.pop()).isdecimal():
                return int(seed)
    return None
