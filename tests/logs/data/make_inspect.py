"""Write the fixtures of inspect_ai with the real inspect_ai 0.3.285 and its mock model.

Run it in an environment of its own: ``pip install inspect_ai==0.3.285``, then
``python make_inspect.py``.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.log._recorders.chunked import convert_eval_logs_to_chunked
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, match, mean, scorer
from inspect_ai.solver import generate

HERE = Path(__file__).parent
# in turn, so that the first sample is right once, then wrong
ANSWERS = ["4", "so 7", "7", "Well, " * 30 + "5"]


def answers():
    for at in range(100):
        stop = "max_tokens" if at % 3 == 2 else "stop"
        one = ModelOutput.from_content("mockllm/model", ANSWERS[at % 4], stop_reason=stop)
        # without it inspect_ai downloads a tokenizer to count
        one.usage = ModelUsage(input_tokens=7, output_tokens=3 + at % 4, total_tokens=10 + at % 4)
        yield one


@scorer(metrics=[mean()])
def brevity():
    async def score(state, target):
        if state.sample_id == "b" and state.epoch == 2:
            return Score.unscored()
        return Score(value=1 / len(state.output.completion))

    return score


@scorer(metrics={"*": [mean()]})
def parts():
    async def score(state, target):
        return Score(value={"digits": 1, "words": 0.5})

    return score


def write(name: str, **options) -> None:
    samples = [
        Sample(id="a", input="2+2?", target="4"),
        Sample(id="b", input="3+4? " + "Think hard. " * 20, target="7"),
    ]
    task = Task(dataset=samples, solver=generate(), name="sums", **options)
    with tempfile.TemporaryDirectory() as folder:
        model = get_model("mockllm/model", custom_outputs=answers())
        (log,) = eval(task, model=model, log_dir=folder, display="none", max_tasks=1, max_samples=1)
        assert log.status == "success", log.error
        (path,) = Path(folder).glob("*.eval")
        shutil.copy(path, HERE / "inspect_ai" / f"{name}.eval")
        whole = read_eval_log(str(path))
        for sample in whole.samples:
            sample.events, sample.events_data = [], None  # most of the file
        write_eval_log(whole, str(HERE / "inspect_ai" / f"{name}.json"), "json")
        chunked = HERE / "inspect_chunked"
        convert_eval_logs_to_chunked(str(path), str(chunked), overwrite=True)
        next(chunked.glob("*.eval")).rename(chunked / f"{name}.eval")


if __name__ == "__main__":
    for name in ("inspect_ai", "inspect_chunked"):
        shutil.rmtree(HERE / name, ignore_errors=True)
        (HERE / name).mkdir()
    write("sums", scorer=[match(), brevity(), parts()], epochs=4)
