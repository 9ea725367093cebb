"""Difficulty levels of a data set by sampled success rate, and a sample of one level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buttress.errors import InputError, UsageError
from buttress.logs.prose import text_digest, text_of
from buttress.measures import wilson_interval
from buttress.report.document import plain
from buttress.train.judging.verify import said
from buttress.train.outcomes import Plan, collect, is_last
from buttress.train.problems.data import Problems
from buttress.train.selection.levels import BANDS, check_bands, level_of, sample_of, unreachable
from buttress.train.store import Outcome, write_whole

FORMATS = ("jsonl", "parquet")
_SAID = 5


@dataclass(frozen=True)
class Selected:
    """What a selection found.

    Attributes
    ----------
    rows
        Every problem with its own columns and ``prompt_id``, ``tries``, ``successes``, ``rate``,
        ``low``, ``high`` (95 % Wilson interval), ``level``, ``unscored``, ``truncated``,
        ``mean_length``; None where unknown. A column that the data set has under one of these
        names (MATH has a ``level``) becomes ``original/<name>``.
    chosen
        Places of the sample among them.
    files
        What was written.
    notes
        What the user should know.
    """

    rows: list[dict[str, Any]]
    chosen: list[int]
    files: list[Path]
    notes: list[str]
    bands: tuple[float, ...]
    level: int

    def counts(self) -> dict[int | None, int]:
        """Return the number of problems of each level, None for those without one."""
        found: dict[int | None, int] = dict.fromkeys(range(len(self.bands) + 1), 0)
        for row in self.rows:
            found[row["level"]] = found.get(row["level"], 0) + 1
        return found


def select(
    plan: Plan,
    problems: Problems,
    out: Path,
    *,
    bands: Sequence[float] = BANDS,
    threshold: float = 1.0,
    level: int = 3,
    size: int | None = None,
    form: str = "jsonl",
) -> Selected | None:
    """Sample, judge, count, and write the levels and a sample of one of them.

    Called on every rank; gives None on a rank that leaves other ranks unfinished behind. The last
    one to finish writes, so no rank waits for another.

    Parameters
    ----------
    plan, problems
        What to sample, of what.
    out
        Folder: ``levels.jsonl``, ``level-3.jsonl``, and the outcomes from which an ended run goes
        on. Another level, size or band reads them again and samples nothing.
    bands
        See `levels.level_of`.
    threshold
        A completion succeeds when its score is at least this.
    level, size
        The level to draw from, and how many problems; all without a size.
    form
        ``jsonl`` or ``parquet``.
    """
    edges = check_bands(bands)
    if not 0 <= level <= len(edges):
        raise UsageError(f"level must lie between 0 and {len(edges)}; got {level}")
    if size is not None and size < 1:
        raise UsageError(f"size must be 1 or more; got {size}")
    if form not in FORMATS:
        raise UsageError.unknown("format", form, FORMATS)
    store = collect(plan, problems, out, label="problems")
    if not is_last([store], len(problems)):
        return None
    ordered = [store.outcomes[index] for index in range(len(problems))]
    rows = level_rows(problems, ordered, bands=edges, threshold=threshold)
    chosen = _chosen(rows, level, size, plan.seed)
    notes = [*_left_out(problems), *_unscored(ordered), *_levels_said(rows, level, size, edges)]
    if missing := unreachable(plan.n, edges):
        names = ", ".join(map(str, missing))
        notes.append(f"with {plan.n} tries no problem can have level {names}; raise --samples")
    files = [
        _write(out / f"levels.{form}", rows),
        _write(out / f"level-{level}.{form}", [rows[place] for place in chosen]),
    ]
    return Selected(rows, chosen, files, notes, edges, level)


def level_rows(
    problems: Problems,
    outcomes: Sequence[Outcome],
    *,
    bands: Sequence[float] = BANDS,
    threshold: float = 1.0,
) -> list[dict[str, Any]]:
    """Return the problems with their counts; `threshold` is the score of a success."""
    rows = []
    for row, outcome in zip(problems.rows, outcomes, strict=True):
        tries, successes = outcome.tries(), outcome.successes(threshold)
        low, high = wilson_interval(successes, tries)
        counts: dict[str, Any] = {
            "prompt_id": text_digest(text_of(row["prompt"]) or ""),
            "tries": tries,
            "successes": successes,
            "rate": successes / tries if tries else None,
            "low": low,
            "high": high,
            "level": level_of(successes, tries, bands),
            "unscored": len(outcome.scores) - tries,
            "truncated": outcome.truncated,
            "mean_length": sum(outcome.lengths) / len(outcome.lengths),
        }
        if outcome.texts is not None:
            counts["completions"] = outcome.texts
        rows.append({**row, **_displaced(row, counts), **plain(counts)})
    return rows


def _displaced(row: Mapping[str, Any], counts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data set's own columns of these names, unless an earlier selection wrote them."""
    taken = [name for name in counts if name in row]
    return {} if len(taken) == len(counts) else {f"original/{name}": row[name] for name in taken}


def _chosen(
    rows: Sequence[Mapping[str, Any]], level: int, size: int | None, seed: int
) -> list[int]:
    places = [place for place, row in enumerate(rows) if row["level"] == level]
    drawn = sample_of([rows[place]["prompt_id"] for place in places], size, seed)
    return [places[at] for at in drawn]


def _left_out(problems: Problems) -> list[str]:
    more = len(problems.left_out) - _SAID
    return [*problems.left_out[:_SAID], *([f"and {more:,} more rows left out"] if more > 0 else [])]


def _unscored(outcomes: Sequence[Outcome]) -> list[str]:
    faults: dict[str, int] = {}
    for outcome in outcomes:
        for why, count in outcome.faults.items():
            faults[why] = faults.get(why, 0) + count
    if not faults:
        return []
    total = sum(len(outcome.scores) for outcome in outcomes)
    return [f"{sum(faults.values()):,} of {total:,} completions have no score: {said(faults)}"]


def _levels_said(
    rows: Sequence[Mapping[str, Any]], level: int, size: int | None, bands: Sequence[float]
) -> list[str]:
    count = sum(row["level"] == level for row in rows)
    if size is None or count >= size:
        return []
    return [
        f"level {level} has {count:,} problems where {size:,} were asked; all are in the sample"
    ]


def _write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".jsonl":
        import msgspec

        encoder = msgspec.json.Encoder(enc_hook=str)
        return write_whole(path, b"".join(encoder.encode(row) + b"\n" for row in rows))
    import io

    import polars as pl

    buffer = io.BytesIO()
    try:
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(buffer)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as fault:
        raise InputError(
            f"the columns of this data set do not fit into Parquet ({fault}); use --format jsonl"
        ) from None
    return write_whole(path, buffer.getvalue())
