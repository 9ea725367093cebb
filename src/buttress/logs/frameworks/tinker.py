"""tinker-cookbook's summaries: ``iteration_*/train_rollout_summaries.jsonl``.

One line per trajectory: schema_version, split, iteration, group_idx, traj_idx, tags, total_reward,
final_reward, trajectory_metrics, steps (step_idx, ob_len, ac_len, reward, episode_done, metrics,
logs), final_ob_len. To the schema of thinking-machines-lab/tinker-cookbook at commit 9dfcc3a
(``rl/rollout_logging.serialize_rollout_summaries``, schema version 1).

A group is one ``group_idx`` of an iteration. Summaries name no prompts and hold no texts beyond
what an environment logs. Correctness and components are metrics of the environment (`ProblemEnv`:
``correct``, ``format``); of several steps the last that has one counts. ``config.json``, one folder
up, tells the token cap of a turn and whether constant groups were removed: asynchronous and
streaming training remove them before the summaries are written, synchronous training after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from buttress.logs import files as log_files
from buttress.logs.builder import RolloutBuilder
from buttress.logs.columns import ALIASES, COMPONENT
from buttress.logs.decode import any_json
from buttress.logs.formats.nested import FAULTS, Nested, Place, RecordFormat, Rollout
from buttress.logs.frameworks.verl import is_component
from buttress.logs.reader import Kind, ReadOptions
from buttress.logs.rows import first_rows, number_or_nan, numeric

_REQUIRED = {"group_idx", "traj_idx", "total_reward", "final_reward"}
_OTHER = "a JSON object without a group or a reward, left out"
_CORRECT = ("correct", *ALIASES["correct"])
_STOP = "stop/"
_CAPPED = {f"{_STOP}{why}" for why in ("max_tokens", "max_sampled_tokens", "context_overflow")}
_LARGEST = 1 << 24  # bytes of a config.json
_EVALUATIONS = (
    "rollouts of evaluations ({} files), left out; name the files to read them by themselves"
)
_FILTERED = "filtered: {} says that groups with one reward were removed before the summaries"
_CAP = "truncated: where a turn has the {:g} tokens that {} allows, or the environment says so"


class _Step(msgspec.Struct, gc=False):
    ac_len: Any = None
    metrics: dict[str, Any] | None = None


class _Row(msgspec.Struct, gc=False):
    iteration: Any = None
    group_idx: Any = None
    traj_idx: Any = None
    total_reward: Any = None
    trajectory_metrics: dict[str, Any] | None = None
    steps: list[_Step] | None = None


class TinkerRollouts:
    """Reads the summaries of the training rollouts."""

    name: ClassVar[str] = "tinker"
    kind: ClassVar[Kind] = "rollouts"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)
    companions: ClassVar[tuple[str, ...]] = (
        "config.json",
        "checkpoints.jsonl",
        "timing_spans.jsonl",
        "code.diff",
        "*_logtree.json",
        "*.html",
    )

    @staticmethod
    def run_of(path: Path) -> Path:
        """Return the folder of the run, which has one for each step."""
        return path.parent.parent

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether rows have the columns of a summary."""
        return any(row.keys() >= _REQUIRED for row in first_rows(head))

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the summaries of a run."""
        training = [path for path in files if _split(path) == "train"]
        if training and len(training) < len(files):
            others = [path for path in files if path not in set(training)]
            builder.problem(others[0], 0, _EVALUATIONS.format(len(others)))
        caps: dict[Path, float | None] = {}
        for path in training or files:
            config = _config_beside(path)
            if config not in caps:
                caps[config] = _settings(config, builder)
            rollouts = partial(_rollouts, cap=caps[config])
            Nested(builder, RecordFormat("a rollout summary", _Row, rollouts)).read(path)


def _split(path: Path) -> str:
    """Return the split of a file, told by its first row: ``train``, ``eval/gsm8k``."""
    rows = first_rows(log_files.head(path))
    split = next((row["split"] for row in rows if "split" in row), "train")
    return "train" if str(split).startswith("train") else str(split)


def _config_beside(path: Path) -> Path:
    return path.absolute().parent.parent / "config.json"


def _settings(config: Path, builder: RolloutBuilder) -> float | None:
    """Return the token cap of a turn, None where it is not known; note a filter."""
    try:
        if not config.is_file():
            return None
        known = any_json(log_files.whole(config, _LARGEST))
    except (OSError, *FAULTS) as fault:
        builder.problem(config, 0, f"cannot be read: {fault}")
        return None
    if not isinstance(known, dict):
        return None
    early = known.get("async_config") or known.get("stream_minibatch_config")
    if known.get("remove_constant_reward_groups") is True and early:
        builder.note(filtered=True)
        builder.infer(_FILTERED.format(config))
    cap = number_or_nan(known.get("max_tokens"))
    if not cap > 0:
        return None
    builder.infer(_CAP.format(cap, config))
    return cap


def _rollouts(row: _Row, place: Place, *, cap: float | None) -> Iterator[Rollout]:
    if row.group_idx is None and row.total_reward is None:
        place.problem(_OTHER)
        return
    metrics: dict[str, Any] = {}
    for one in row.steps or ():
        metrics |= one.metrics or {}
    metrics |= row.trajectory_metrics or {}
    turns = [number_or_nan(one.ac_len) for one in row.steps or ()]
    columns = {
        "step": row.iteration,
        "group": row.group_idx,
        "sample": row.traj_idx,
        "reward": row.total_reward,
        "length": sum(turns) if turns else None,
        "truncated": _truncated(metrics, turns, cap),
    }
    yield Rollout(columns | _judged(metrics, place.builder), metrics)


def _truncated(
    metrics: Mapping[str, Any], turns: Sequence[float], cap: float | None
) -> bool | None:
    """Return whether a token limit ended a trajectory.

    An environment may say so only of those that it ended, so that without the cap of the
    configuration the others are unknown; then all are.
    """
    if cap is None:
        return None
    return not _CAPPED.isdisjoint(metrics) or any(length >= cap for length in turns)


def _judged(metrics: Mapping[str, Any], builder: RolloutBuilder) -> dict[str, Any]:
    """Return correctness and components among the metrics."""
    correct = next((name for name in _CORRECT if numeric(metrics.get(name, ""))), None)
    found = {}
    if correct:
        found["correct"] = metrics[correct]
        builder.infer(f"correct: the environment's metric {correct}")
    for name, value in metrics.items():
        if name != correct and is_component(name) and numeric(value):
            found[COMPONENT + name] = value
    return found
