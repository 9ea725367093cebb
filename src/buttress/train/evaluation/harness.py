"""Benchmarks as lighteval runs them: its prompts and metrics, our intervals and paired tests.

lighteval pins another version of latex2sympy2_extended than math-verify does, so it lives in an
environment of its own: ``pip install 'buttress[evaluate]'``.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from buttress.errors import InputError, MissingExtraError, UsageError
from buttress.train.evaluation.evaluate import Evaluated, Evaluation, Values
from buttress.train.generation.models import default_device, locate
from buttress.train.problems import hub
from buttress.train.problems.benchmarks import BENCHMARKS

_SAID = 200
_NETWORK = re.compile("connect|offline|resolve|max retries|not find", re.IGNORECASE)


def evaluate_with_lighteval(
    data: str,
    models: Sequence[str],
    *,
    out: Path | None = None,
    limit: int | None = None,
    seed: int = 0,
    tasks_file: Path | None = None,
) -> Evaluation:
    """Run a task of lighteval on each model, and return its metrics per problem.

    Parameters
    ----------
    data
        One of our benchmarks that lighteval has, or the name of any task of lighteval.
    models
        Hub names or folders.
    out
        Folder where lighteval saves its results and details.
    limit
        Use the first so many problems only.
    seed
        Of the bootstrap.
    tasks_file
        A Python file with tasks of the user's own, as lighteval takes it.

    Raises
    ------
    UsageError
        For a benchmark that lighteval lacks.
    InputError
        Where a model or the task's data cannot be loaded.
    """
    task = task_of(data)
    try:
        import lighteval  # noqa: F401
    except ImportError:
        raise MissingExtraError.of("the harness lighteval", "evaluate") from None
    found = [_evaluated(task, model, out, limit, tasks_file) for model in models]
    sizes = {len(values) for one in found for values in one.values.values()}
    notes = (f"task {task} of lighteval: its prompts and metrics",)
    return Evaluation(data, max(sizes, default=0), tuple(found), notes, seed)


def task_of(data: str) -> str:
    """Return the name of lighteval's task.

    >>> task_of("math-500"), task_of("gpqa:diamond")
    ('math_500', 'gpqa:diamond')
    """
    known = BENCHMARKS.get(data.lower())
    if known is None:
        return data
    if known.lighteval is None:
        have = ", ".join(name for name, one in BENCHMARKS.items() if one.lighteval)
        raise UsageError(
            f"lighteval has no task {data}; leave out --harness. It has of our names: {have}"
        )
    return known.lighteval


def _evaluated(
    task: str, model: str, out: Path | None, limit: int | None, tasks_file: Path | None
) -> Evaluated:
    place = locate(model)
    if place.gguf:
        raise UsageError(f"lighteval does not read the GGUF file of {model}; leave out --harness")
    with tempfile.TemporaryDirectory() as scratch:
        try:
            details = _details(
                task, place.name, out or Path(scratch), out is not None, limit, tasks_file
            )
        except Exception as fault:
            raise _failed(task, model, fault) from fault
    return Evaluated(
        model,
        _values([one.metric for one in details]),
        completions=sum(len(one.model_response.text) for one in details),
        tokens=sum(len(ids) for one in details for ids in one.model_response.output_tokens),
    )


def _details(
    task: str, model: str, out: Path, save: bool, limit: int | None, tasks_file: Path | None
) -> list[Any]:
    from lighteval.logging.evaluation_tracker import EvaluationTracker
    from lighteval.models.transformers.transformers_model import TransformersModelConfig
    from lighteval.pipeline import ParallelismManager, Pipeline, PipelineParameters

    pipeline = Pipeline(
        tasks=f"{task}|0",
        pipeline_parameters=PipelineParameters(
            launcher_type=ParallelismManager.ACCELERATE,
            custom_tasks_directory=None if tasks_file is None else str(tasks_file),
            max_samples=limit,
        ),
        evaluation_tracker=EvaluationTracker(output_dir=str(out), save_details=save),
        # its default is cuda, also where there is none
        model_config=TransformersModelConfig(model_name=model, device=default_device()),
    )
    pipeline.evaluate()
    if save:
        pipeline.save_and_push_results()
    return [one for details in pipeline.get_details().values() for one in details]


def _values(metrics: Sequence[dict[str, Any]]) -> Values:
    """Return the numbers of each metric that is one number per problem."""
    names = dict.fromkeys(name for one in metrics for name in one)
    found: Values = {}
    for name in names:
        numbers = [one.get(name, np.nan) for one in metrics]
        if all(np.ndim(number) == 0 for number in numbers):
            found[name] = np.array(numbers, dtype=np.float64)
    return found


def _failed(task: str, model: str, fault: Exception) -> InputError:
    said = (str(fault).strip() or type(fault).__name__).splitlines()[0][:_SAID]
    if _NETWORK.search(str(fault)) and not hub.reachable():
        said = (
            "there is no network. lighteval loads its tasks' data from the hub, and a table from "
            f"GitHub at its start; on a machine with a network run it once, or use our own harness "
            f"with a local file ({said})"
        )
    return InputError(f"lighteval could not run {task} on {model}: {said}")
