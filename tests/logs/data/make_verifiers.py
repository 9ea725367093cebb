"""Write the fixtures of verifiers and prime-rl with the models of the real verifiers 0.4.0.

Run it in an environment of its own: ``pip install verifiers==0.4.0``, then
``python make_verifiers.py``. prime-rl needs a GPU; its `FileMonitor` (commit 559b447) writes
``episode.to_record()`` into ``rollouts/step_N/{train,eval}/{all,effective}/traces.jsonl``, and so
does this. Credit is that of its GRPO: reward minus the mean of the group's clean traces.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import defaultdict
from pathlib import Path

import verifiers.v1 as vf
from verifiers.v1.configs.agent import WireAgentConfig
from verifiers.v1.episode import EnvInfo, EvalWorkInfo, GroupInfo, TrainRunInfo, TrainWorkInfo
from verifiers.v1.graph import MessageNode
from verifiers.v1.state import State
from verifiers.v1.task import WireTaskData, task_key
from verifiers.v1.trace import AgentInfo, Error, ModelCall, Trace, TraceTask
from verifiers.v1.types import AssistantMessage, SystemMessage, Usage, UserMessage
from verifiers.v1.utils.trace_store import write_episode

HERE = Path(__file__).parent
rng = random.Random(5)
ids = random.Random(6)


def name() -> str:
    return f"{ids.getrandbits(128):032x}"


def task_of(number: int) -> TraceTask:
    data = WireTaskData(idx=number, prompt=f"What is {number} + {number}?", answer=str(2 * number))
    key = task_key(data.model_dump(mode="json", exclude_none=True))
    return TraceTask(type="Sum", data=data, key=key, hash=key)


def trace_of(task: TraceTask, solved: bool, *, agent: str = "agent", trainable: bool = True):
    answer = [*f"{task.data.idx}{rng.randrange(100)}"]
    tokens = len(answer) + 1
    trace = Trace[WireTaskData, State, WireAgentConfig](
        id=name(),
        task=task,
        agent=AgentInfo(config=WireAgentConfig(), name=agent, trainable=trainable),
    )
    trace.nodes = [
        MessageNode(message=SystemMessage(content="Add."), token_ids=[1, 2], mask=[False] * 2),
        MessageNode(
            parent=0,
            message=UserMessage(content=task.data.prompt),
            token_ids=[3, 4, 5],
            mask=[False] * 3,
        ),
        MessageNode(
            parent=1,
            message=AssistantMessage(content="".join(answer), reasoning_content="hm"),
            sampled=True,
            token_ids=[9, *range(10, 10 + tokens)],
            mask=[False] + [True] * tokens,
            logprobs=[-0.5] * tokens,
        ),
    ]
    cut = rng.random() < 0.25
    usage = Usage(prompt_tokens=6, completion_tokens=tokens)
    reason = "length" if cut else "stop"
    trace.calls = [ModelCall(node=2, model="m", finish_reason=reason, usage=usage)]
    trace.record_reward("correct_answer", float(solved))
    trace.record_reward("format", 1.0 - 0.5 * cut, weight=0.2)
    trace.record_metric("num_turns", 1)
    trace.ok = True
    trace.stop("agent_completed")
    return trace


def failed(trace):
    trace.errors.append(Error(type="SandboxError", message="gone"))
    trace.ok = False
    trace.rewards = {}
    trace.stop_condition = "error"
    return trace


def evaluation() -> None:
    folder = HERE / "verifiers_eval"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for number in range(3):
        task = task_of(number)
        for attempt in range(4):
            trace = trace_of(task, solved=(attempt + number) % (number + 1) == 0)
            if (number, attempt) == (2, 3):
                trace = failed(trace)
            episode = vf.Episode(
                id=name(), env=EnvInfo(id="sums"), task=task, traces=[trace], ok=trace.ok
            )
            write_episode(folder, episode)
    lost = vf.Episode(id=name(), env=EnvInfo(id="sums"), task=task_of(0))
    lost.errors.append(Error(type="TaskError", message="no sandbox"))
    write_episode(folder, lost)


def log(root: Path, episode, step: int, kind: str, subset: str) -> None:
    path = root / f"step_{step}" / kind / subset / "traces.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(episode.to_record(), separators=(",", ":")) + "\n")


def credit(group: list) -> None:
    traces = [t for e in group for t in e.traces if t.ok and t.agent.trainable]
    mean = sum(t.reward for t in traces) / len(traces)
    for trace in traces:
        for node in trace.nodes:
            if any(node.mask):
                node.advantages = [trace.reward - mean] * sum(node.mask)


def training() -> None:
    root = HERE / "prime_rl" / "rollouts"
    shutil.rmtree(root.parent, ignore_errors=True)
    rates = [0.0, 0.5, 0.9]
    waiting = defaultdict(list)
    for step in (1, 2):
        for number, rate in enumerate(rates):
            task, group = task_of(number), GroupInfo(id=name())
            for at in range(4):
                solved = rng.random() < rate
                traces = [trace_of(task, solved, agent="solver")]
                if (step, number) == (1, 0):
                    traces.append(trace_of(task, True, agent="judge", trainable=False))
                if (step, number, at) == (2, 1, 0):
                    failed(traces[0])
                episode = vf.Episode(
                    id=name(),
                    env=EnvInfo(id="sums", name="sums-train"),
                    task=task,
                    group=group,
                    traces=traces,
                    ok=all(trace.ok for trace in traces),
                )
                episode.run = TrainRunInfo(id="r", work=TrainWorkInfo(step=step))
                # the last rollout of each step arrives while the next batch is collected
                late = number == 2 and at == 3
                log(root, episode, step + late, "train", "all")
                waiting[group.id].append(episode)
            credit(waiting[group.id])
            for episode in waiting[group.id]:
                kept = [
                    t
                    for t in episode.traces
                    if t.ok and t.agent.trainable and any(any(n.advantages or ()) for n in t.nodes)
                ]
                if kept:  # filter_zero_advantages, the default
                    shipped = episode.model_copy(update={"traces": kept})
                    log(root, shipped, step + (number == 2), "train", "effective")
    episode = vf.Episode(id=name(), task=task_of(9), traces=[trace_of(task_of(9), True)], ok=True)
    episode.group = GroupInfo(id=name())
    episode.run = TrainRunInfo(id="r", work=EvalWorkInfo(step=2))
    log(root, episode, 2, "eval", "all")


if __name__ == "__main__":
    evaluation()
    training()
