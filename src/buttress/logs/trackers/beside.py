"""Files that trackers keep beside their metrics, with nothing in them to read."""

from __future__ import annotations

import re
from pathlib import Path

from buttress.logs.trackers.mlflow_store import META

_WANDB_RUN = re.compile(r"(offline-)?run-\d{8}_\d{6}-.+|latest-run")
_WANDB_FOLDERS = {"media", "logs", "tmp"}
_WANDB_FILES = {
    "wandb-metadata.json", "wandb-summary.json", "config.yaml", "requirements.txt", "output.log",
    "conda-environment.yaml", "diff.patch", "debug.log", "debug-internal.log", "debug-core.log",
}  # fmt: skip
_MLFLOW_FOLDERS = {"params", "tags", "inputs", "outputs", "traces"}
_SQLITE_TAILS = ("-wal", "-shm", "-journal")
_TRACKIO_TABLES = re.compile(
    r"(.+)_(system|configs|traces|artifacts|artifact_versions|"
    r"artifact_aliases|run_artifact_links)\.parquet"
)


def holds_nothing(path: Path) -> bool:
    """Return whether a file is known to hold no rollouts and no metrics of a trainer."""
    return _of_wandb(path) or _of_mlflow(path) or _of_database(path)


def _of_wandb(path: Path) -> bool:
    if path.name in ("debug.log", "debug-internal.log") and path.parent.name == "wandb":
        return True
    for folder in path.parents:
        if _WANDB_RUN.fullmatch(folder.name):
            inside = path.relative_to(folder).parts
            return not _WANDB_FOLDERS.isdisjoint(inside[:2]) or path.name in _WANDB_FILES
    return False


def _of_mlflow(path: Path) -> bool:
    if path.name == META:
        return True
    return any(
        folder.name in _MLFLOW_FOLDERS and (folder.parent / META).is_file()
        for folder in path.parents
    )


def _of_database(path: Path) -> bool:
    """Return whether it is a log or lock of a database, or a table that Trackio exports beside."""
    for tail in _SQLITE_TAILS:
        if path.name.endswith(tail):
            return path.with_name(path.name.removesuffix(tail)).is_file()
    if path.suffix == ".lock":
        return path.with_suffix(".db").is_file()
    table = _TRACKIO_TABLES.fullmatch(path.name)
    return bool(table) and path.with_name(f"{table[1]}.parquet").is_file()
