"""rLLM's episodes: ``episodes/{mode}_step_S_epoch_E/episode_hash*_id*.json``, one file each.

Fields: training_step, epoch, episode_id (``task:rollout``), session_id, task, task_hash,
is_correct, termination_reason, metrics, metadata, timing, trajectories (name, uid, reward,
num_steps, timing, steps with observation, thought, action, reward, done, model_response,
chat_completions, timing). To the schema of rllm-org/rllm at commit 9beb6e0
(``utils/episode_logger.EpisodeLogger``).

Every trajectory is a rollout. A group is what `trainer.algorithms.transform` compares: the
trajectories of one name over the episodes of one task; those without steps are left out there and
here. Without a reward of its own a trajectory has that of its last step. Episodes are written
before ``filter_uniform_groups``, so they are all there; lengths in tokens are not written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from buttress.groups import Text
from buttress.logs import files as log_files
from buttress.logs.builder import RolloutBuilder
from buttress.logs.formats.nested import FAULTS, Place, Rollout, columns_of, decoded
from buttress.logs.prose import text_of
from buttress.logs.reader import Kind, ReadOptions

_FILE = re.compile(r"episode_hash[0-9a-f]*_id.*")
_FOLDER = re.compile(r"(.+)_step_(\d+)_epoch_(\d+)")
_BEGINS = re.compile(rb'\s*\{\s*"training_step"\s*:[^{]*"episode_id"\s*:')
_UNNAMED = "default_traj_name"  # which rLLM completes with the place in the episode
_LIMIT = 256 << 20
_CAPPED = {"max_response_length_exceeded", "max_prompt_length_exceeded"}
_UNKNOWN = {"unknown", "error", "timeout"}
_ASKS = ("instruction", "question", "problem", "prompt", "query", "input")
_EVALUATIONS = (
    "episodes of validations ({} files), left out; name their folder to read them by themselves"
)
_SEVERAL = (
    "correct: unknown for episodes of several trajectories, since is_correct speaks of the whole"
)
_LAST = "reward: that of the last step where a trajectory has none of its own, as rLLM takes it"


class _Step(msgspec.Struct, gc=False):
    reward: Any = None
    observation: Any = None
    model_response: Any = None
    chat_completions: Any = None


class _Trajectory(msgspec.Struct, gc=False):
    name: Any = None
    reward: Any = None
    steps: list[_Step] = []


class _Episode(msgspec.Struct, gc=False):
    training_step: Any = None
    episode_id: Any = None
    task: Any = None
    task_hash: Any = None
    is_correct: Any = None
    termination_reason: Any = None
    trajectories: list[_Trajectory] = []


class RllmEpisodes:
    """Reads the episodes of a run, those of training where both are there."""

    name: ClassVar[str] = "rllm"
    kind: ClassVar[Kind] = "rollouts"
    suffixes: ClassVar[tuple[str, ...]] = (".json",)
    companions: ClassVar[tuple[str, ...]] = ("batch_summary.json",)

    @staticmethod
    def run_of(path: Path) -> Path:
        """Return the folder of the run, which has one for each step."""
        return path.parent.parent

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether name and folder, or the first fields, are those of an episode."""
        named = bool(_FILE.fullmatch(path.stem)) and bool(_FOLDER.fullmatch(path.parent.name))
        return named or bool(_BEGINS.match(head[:4096]))

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the episodes of a run."""
        training = [path for path in files if _mode(path) != "val"]
        if training and len(training) < len(files):
            left_out = [path for path in files if _mode(path) == "val"]
            builder.problem(left_out[0], 0, _EVALUATIONS.format(len(left_out)))
        for path in training or files:
            place = Place(builder, path, 0)
            rows = list(_rollouts(_episode(path, place), place))
            file = builder.open(path, _fetch)
            if rows:
                numbers = list(range(1, len(rows) + 1))
                builder.add(file, numbers, columns_of(rows, builder), [0] * len(rows))


def _mode(path: Path) -> str:
    named = _FOLDER.fullmatch(path.parent.name)
    return named[1] if named else ""


def _episode(path: Path, place: Place) -> _Episode:
    """Return the episode of a file; an empty one, and a problem, where there is none."""
    data = b""
    try:
        with log_files.Opened(path) as file:
            data = b"".join(_chunks(file))
            place.builder.advance(file.advanced())
            if file.fault:
                place.problem(f"{file.fault}", lost=1)
                return _Episode()
        return decoded(data, _Episode)
    except OSError as fault:
        place.problem(f"cannot be read: {fault.strerror or fault}", lost=1)
    except FAULTS as fault:
        cut = not data.rstrip().endswith(b"}")
        what = "the file is cut off" if cut else "not an rLLM episode"
        place.problem(f"{what}: {str(fault) or type(fault).__name__}", lost=1)
    return _Episode()


def _chunks(file: log_files.Opened) -> Iterator[bytes]:
    """Yield the bytes of a file, up to the limit."""
    for _ in range(_LIMIT // log_files.HEAD):
        chunk = file.read(log_files.HEAD)
        if not chunk:
            return
        yield chunk


def _rollouts(episode: _Episode, place: Place) -> Iterator[Rollout]:
    task, _, number = str(episode.episode_id).partition(":")
    several = len(episode.trajectories) > 1
    if several and episode.is_correct is not None:
        place.builder.infer(_SEVERAL)
    kept = _kept(episode)
    names = Counter(name for name, _ in kept)
    for name, one in kept:
        text = _text(episode, one)
        alone = names[name] == 1 and number.isdecimal()
        columns = {
            "step": episode.training_step,
            "group": f"{task}:{name}",
            "sample": int(number[:15]) if alone else -1,
            "prompt_id": f"{episode.task_hash or task}" + (f":{name}" if several else ""),
            "prompt": text.prompt or None,
            "completion": text.completion or None,
            "reward": _reward(one, place),
            "correct": None if several else episode.is_correct,
            "truncated": _truncated(episode.termination_reason),
        }
        yield Rollout(columns)


def _kept(episode: _Episode) -> list[tuple[str, _Trajectory]]:
    """Return the trajectories with steps, each with the name that rLLM groups it by."""
    found = []
    for place, one in enumerate(episode.trajectories):
        unnamed = not one.name or one.name == _UNNAMED
        name = f"{_UNNAMED}_{place}" if unnamed else str(one.name)
        if one.steps:
            found.append((name, one))
    return found


def _reward(one: _Trajectory, place: Place) -> Any:
    if one.reward is None and one.steps[-1].reward is not None:
        place.builder.infer(_LAST)
        return one.steps[-1].reward
    return one.reward


def _truncated(reason: Any) -> bool | None:
    """Return whether an episode ended at a cap on its tokens; None where that is not known."""
    if not isinstance(reason, str) or reason in _UNKNOWN:
        return None
    return reason in _CAPPED


def _text(episode: _Episode, one: _Trajectory) -> Text:
    """Return the task (what is asked in it, if that can be told) and all that the model said."""
    task, first = episode.task, one.steps[0]
    if isinstance(task, dict):
        task = next((task[name] for name in _ASKS if task.get(name)), task)
    asked = text_of(task) or text_of(first.observation) or ""
    said = [text_of(step.model_response) for step in one.steps]
    if not any(said):
        said = [_last_message(step.chat_completions) for step in one.steps]
    return Text(asked, "\n".join(filter(None, said)))


def _last_message(chat: Any) -> str | None:
    return text_of(chat[-1:]) if isinstance(chat, list) else None


def _fetch(path: Path, rows: Sequence[int]) -> list[Text]:
    """Return the texts of the trajectories of an episode, by their numbers from 1."""
    episode = _episode(path, Place(RolloutBuilder(), path, 0))
    found = [_text(episode, one) for _, one in _kept(episode)]
    return [found[row - 1] if row <= len(found) else Text("", "") for row in rows]
