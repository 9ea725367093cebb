"""Sample completions of every problem and judge them: what `select` and `evaluate` share."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from operator import ge
from pathlib import Path
from typing import Any

from buttress.errors import ButtressError, UsageError
from buttress.train.generation.generate import Engine, engine_of, sampler_for
from buttress.train.generation.models import fingerprint, locate
from buttress.train.generation.sampling import Completion, Sampler, Sampling, derived_seed
from buttress.train.judging.verify import Verdict, Verifier, said
from buttress.train.problems.asking import Asking
from buttress.train.problems.data import Problems, Row
from buttress.train.progress import counting
from buttress.train.store import Outcome, Store

BATCH = {"transformers": 64, "vllm": 4096}  # completions
TOO_LONG = "their prompt fills the model's context"
HOPELESS = 32, 8  # completions and problems without one score after which a judge is given up


@dataclass(frozen=True)
class Judge:
    """What decides whether a completion is right: the arguments of `Verifier`."""

    use: str = "math"
    options: Mapping[str, Any] = field(default_factory=dict)
    timeout: float = 5.0


@dataclass(frozen=True)
class Plan:
    """Everything that decides the outcomes of a sampling.

    Parameters
    ----------
    model, revision, dtype, engine
        See `generate.sampler_for`.
    n
        Completions per problem.
    sampling, asking, judge
        How tokens are drawn, how problems are put, how completions are judged.
    seed
        Of the sampling.
    batch
        Completions that are sampled together and written together; by default 64, with vLLM 4096.
    keep_texts
        Keep the completions too.
    """

    model: str
    n: int
    sampling: Sampling = field(default_factory=Sampling)
    asking: Asking = field(default_factory=Asking)
    judge: Judge = field(default_factory=Judge)
    seed: int = 42
    revision: str | None = None
    dtype: str = "auto"
    engine: Engine = "auto"
    batch: int | None = None
    keep_texts: bool = False

    def __post_init__(self) -> None:
        if self.batch is not None and self.batch < 1:
            raise UsageError(f"batch must be 1 or more; got {self.batch}")

    def record(self, problems: Problems, engine: str) -> dict[str, Any]:
        """Return what decides the outcomes, in plain objects that JSON can hold."""
        local = locate(self.model).local
        return {
            "model": None if local else self.model,
            "weights": fingerprint(self.model),
            "revision": self.revision,
            "problems": len(problems),
            "data": problems.digest,
            "n": self.n,
            "seed": self.seed,
            "sampling": asdict(self.sampling),
            "asking": asdict(self.asking),
            "judge": {"use": self.judge.use, "options": dict(self.judge.options)},
            "timeout": self.judge.timeout,
            "dtype": self.dtype,
            "engine": engine,
            "batch": self.batch or BATCH[engine],
            "keep_texts": self.keep_texts,
        }


def rank_and_world() -> tuple[int, int]:
    """Return this process and the number of processes that torchrun or accelerate started."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def collect(plan: Plan, problems: Problems, folder: Path | None, *, label: str) -> Store:
    """Sample and judge this rank's share of the problems, and return all outcomes that there are.

    Nothing is loaded where everything is finished already. Batches are dealt to the ranks in turn.

    Parameters
    ----------
    plan
        What to do.
    folder
        Where outcomes are kept; an ended run goes on there. None keeps them in memory.
    label
        Name of the progress.
    """
    if plan.n < 1:
        raise UsageError(f"the samples per problem must be 1 or more; got {plan.n}")
    rank, world = rank_and_world()
    if folder is None and world > 1:
        raise UsageError("several ranks need a common folder: name it with --out")
    engine = engine_of(plan.model, plan.engine)
    record = plan.record(problems, engine)
    store = Store(folder, record, rank=rank)
    per_batch = max(1, record["batch"] // plan.n)
    batches = [
        (number, range(start, min(start + per_batch, len(problems))))
        for number, start in enumerate(range(0, len(problems), per_batch))
        if number % world == rank
    ]
    total = sum(len(indices) for _, indices in batches)
    left = [(number, batch) for number, batch in batches if not store.outcomes.keys() >= {*batch}]
    if left:
        done = total - sum(len(indices) for _, indices in left)
        with counting(f"{label} (rank {rank})" if world > 1 else label, done, total) as advance:
            for finished in _sampled(plan, engine, record["batch"], problems, left):
                store.add(finished)
                done += len(finished)
                advance(done)
    store.reread()
    return store


def is_last(stores: Sequence[Store], count: int) -> bool:
    """Return whether all `count` outcomes of each store are there and this rank is to say so.

    Exactly one of the ranks is: that which wrote the last outcome of all. What it reads after that
    is complete, and no file changes any more, so that all ranks that see it complete agree on it.
    """
    for store in stores:
        store.reread()  # others may have ended a first part while this rank was at a second
    if any(len(store.outcomes) < count for store in stores):
        return False
    rank, world = rank_and_world()
    # modulo: a run of more ranks may have ended here before
    return world == 1 or max(store.newest() for store in stores)[1] % world == rank


def _sampled(
    plan: Plan,
    engine: Engine,
    batch_size: int,
    problems: Problems,
    batches: Sequence[tuple[int, range]],
) -> Iterator[list[Outcome]]:
    with ExitStack() as stack:
        judge = plan.judge
        # the judge first: its faults show in a second, those of a model after minutes
        verifier = stack.enter_context(Verifier(judge.use, judge.options, timeout=judge.timeout))
        sampler = sampler_for(
            plan.model,
            plan.sampling,
            engine=engine,
            dtype=plan.dtype,
            revision=plan.revision,
            batch_size=batch_size,
        )
        hope = _Hope(judge.use)
        for number, indices in batches:
            rows = [problems.rows[index] for index in indices]
            outcomes = _batch(plan, sampler, verifier, rows, derived_seed(plan.seed, number))
            for index, outcome in zip(indices, outcomes, strict=True):
                outcome.index = index
            hope.check(outcomes)
            yield outcomes


def _batch(
    plan: Plan, sampler: Sampler, verifier: Verifier, rows: Sequence[Row], seed: int
) -> list[Outcome]:
    tokenizer = sampler.tokenizer
    prompts = [plan.asking.prompt(row, tokenizer) for row in rows]
    texts = [plan.asking.text(prompt, tokenizer) for prompt in prompts]
    drawn = sampler.sample(texts, plan.n, seed)
    asked = [{**row, "prompt": prompt} for row, prompt in zip(rows, prompts, strict=True)]
    answered = [(row, one.text) for row, some in zip(asked, drawn, strict=True) for one in some]
    verdicts = iter(verifier([text for _, text in answered], [row for row, _ in answered]))
    return [
        _outcome(some, [next(verdicts) for _ in some], plan.keep_texts)
        if some
        else Outcome(-1, [None] * plan.n, [0] * plan.n, faults={TOO_LONG: plan.n})
        for some in drawn
    ]


def _outcome(
    completions: Sequence[Completion], verdicts: Sequence[Verdict], keep_texts: bool
) -> Outcome:
    return Outcome(
        index=-1,
        scores=[verdict.score for verdict in verdicts],
        lengths=[one.length for one in completions],
        truncated=sum(one.truncated for one in completions),
        faults=dict(Counter(verdict.fault for verdict in verdicts if verdict.fault)),
        texts=[one.text for one in completions] if keep_texts else None,
    )


class _Hope:
    """Gives up on a judge that never judges, before hours are lost."""

    def __init__(self, use: str) -> None:
        self._use = use
        self._judged = self._problems = 0
        self._faults: Counter[str] = Counter()

    def check(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            self._judged += outcome.tries()
            self._problems += 1
            self._faults.update(outcome.faults)
        seen = self._faults.total(), self._problems
        if not self._judged and all(map(ge, seen, HOPELESS)):
            raise ButtressError(
                f"the judge {self._use} has given no score for any of the first "
                f"{self._faults.total()} completions: {said(self._faults)}"
            )
