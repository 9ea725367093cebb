"""Options of the commands that sample from models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from buttress.cli.options import OUTPUT
from buttress.errors import UsageError

if TYPE_CHECKING:
    from buttress.train.outcomes import Plan
    from buttress.train.problems.benchmarks import Benchmark
    from buttress.train.problems.data import Problems

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

    def problems(
        self,
        name: str,
        known: Benchmark | None = None,
        *,
        at: str | None = None,
        needs_answer: bool = True,
    ) -> Problems:
        """Read a data set; what the user did not say comes from a known benchmark.

        `at` is where the data of the benchmark are, if not on the hub.
        """
        from buttress.train.problems.data import load_problems

        return load_problems(
            at or (known.path if known else name),
            prompt=self.prompt or (known.prompt if known else None),
            answer=self.answer or (known.answer if known else None),
            choices=self.choices or (known.choices if known else None),
            subset=self.subset or (known.subset if known else None),
            split=self.split or (known.split if known else "train"),
            revision=self.revision,
            limit=self.limit,
            needs_answer=needs_answer,
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

    @property
    def needs_answer(self) -> bool:
        """Whether the verifier compares with an answer; a function may do without."""
        return ":" not in (self.verifier or "")

    def plan(self, model: str, n: int, known: Benchmark | None = None) -> Plan:
        """Return what to sample; what the user did not say comes from a known benchmark."""
        from buttress.train.generation.sampling import Sampling
        from buttress.train.outcomes import Judge, Plan
        from buttress.train.problems.asking import Asking

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


def _pairs(options: Sequence[str]) -> dict[str, Any]:
    from buttress.train.source import toml_value

    found = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not (key and equals):
            raise UsageError(f"--verifier-option takes KEY=VALUE; got {option!r}")
        found[key] = toml_value(value)
    return found
