"""What is kept of a training run that was recorded: its rollouts as sampled, and its metrics.

A recording holds texts, not rewards. Rewards are what a cause changes, so they are made anew from
the texts by the task's own verdict.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from buttress.errors import UsageError

SHIPPED = Path(__file__).parent / "recordings"
Judge = Literal["exact", "contains"]


@dataclass(frozen=True, eq=False)
class Recording:
    """One run; G completions of each of N prompts.

    Attributes
    ----------
    name, method, judge, cap
        What the run is called, the estimator that it was trained with, how its task grades a
        completion, and the most tokens that a completion could have.
    steps
        ``(group,)``.
    prompts, answers
        One text per group; the answer is what the verdict looks for.
    texts, lengths, ended
        ``(group, sample)``: the completion, its tokens, and whether it ended by itself.
    scalars
        Metrics under TRL's names, one value per step.
    """

    name: str
    method: str
    judge: Judge
    cap: int
    steps: NDArray[np.int64]
    prompts: NDArray[np.object_]
    answers: NDArray[np.object_]
    texts: NDArray[np.object_]
    lengths: NDArray[np.int64]
    ended: NDArray[np.bool_]
    scalars: dict[str, NDArray[np.float64]]

    def save(self, folder: Path) -> Path:
        """Write the recording to ``NAME.npz`` in a folder and return the path."""
        about = {"method": self.method, "judge": self.judge, "cap": self.cap}
        path = folder / f"{self.name}.npz"
        arrays: dict[str, Any] = {
            "about": _packed([json.dumps(about)]),
            "steps": self.steps.astype(np.int16),
            "prompts": _packed(self.prompts.tolist()),
            "answers": _packed(self.answers.tolist()),
            "texts": _packed(self.texts.ravel().tolist()),
            "lengths": self.lengths.astype(np.int16),
            "ended": self.ended,
        }
        arrays |= {f"scalar:{name}": one.astype(np.float32) for name, one in self.scalars.items()}
        np.savez_compressed(path, **arrays)
        return path


def verdicts(
    judge: Judge,
    texts: NDArray[np.object_],
    answers: NDArray[np.object_],
    ended: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return 1 where a completion is right, else 0, shape ``(group, sample)``.

    ``exact`` wants the whole answer and nothing else, ``contains`` the answer somewhere. Neither
    grades a completion that did not end by itself.

    Examples
    --------
    >>> texts = np.array([["12", "21", "12"]], dtype=object)
    >>> answers = np.array(["12"], dtype=object)
    >>> verdicts("exact", texts, answers, np.array([[True, True, False]])).tolist()
    [[1.0, 0.0, 0.0]]
    """
    pairs = zip(texts, answers, strict=True)
    if judge == "exact":
        right = [[text == answer for text in row] for row, answer in pairs]
    else:
        right = [[answer in text for text in row] for row, answer in pairs]
    return (np.array(right) & ended).astype(np.float64)


@cache
def recording(name: str) -> Recording:
    """Return a shipped recording; raises `UsageError` for a name that is none."""
    path = SHIPPED / f"{name}.npz"
    if not path.is_file():
        raise UsageError.unknown("recording", name, names())
    return load(path)


def names() -> list[str]:
    """Return the names of the shipped recordings."""
    return sorted(path.stem for path in SHIPPED.glob("*.npz"))


def load(path: Path) -> Recording:
    """Return the recording in a file that `Recording.save` wrote."""
    with np.load(path) as file:
        about = json.loads(_unpacked(file["about"])[0])
        lengths = file["lengths"].astype(np.int64)
        texts = np.array(_unpacked(file["texts"]), dtype=object).reshape(lengths.shape)
        scalars = {
            name.removeprefix("scalar:"): file[name].astype(np.float64)
            for name in file.files
            if name.startswith("scalar:")
        }
        return Recording(
            path.stem,
            about["method"],
            about["judge"],
            about["cap"],
            file["steps"].astype(np.int64),
            np.array(_unpacked(file["prompts"]), dtype=object),
            np.array(_unpacked(file["answers"]), dtype=object),
            texts,
            lengths,
            file["ended"],
            scalars,
        )


def _packed(texts: list[str]) -> NDArray[np.uint8]:
    return np.frombuffer("\n".join(texts).encode(), dtype=np.uint8)


def _unpacked(packed: NDArray[np.uint8]) -> list[str]:
    return packed.tobytes().decode().split("\n")
