"""`buttress evaluate`: its numbers against counting the completions, pairs, ranks, bad input."""

from __future__ import annotations

import json
import shutil
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import buttress
from buttress.cli import main
from buttress.errors import MissingExtraError, UsageError
from buttress.train.evaluation.evaluate import measures
from buttress.train.evaluation.harness import _values, evaluate_with_lighteval
from buttress.train.problems import hub
from buttress.train.problems.benchmarks import BENCHMARKS
from buttress.train.store import Outcome
from tests.helpers import require
from tests.train import digits

require("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")

COUNT, N = 10, 4
CHECKPOINT = Path(buttress.__file__).parent / "lab" / "checkpoints" / "latent-skill"


def arguments(data, *more):
    return ["evaluate", data, *digits.options({"--samples": str(N)}, *more)]


def call(*given):
    with pytest.raises(SystemExit) as left:
        main([str(one) for one in given])
    return int(left.value.code or 0)


def evaluated(capsys, *given):
    assert call(*given, "--json") == 0
    return json.loads(capsys.readouterr().out)


def outcomes(folder):
    lines = (folder / "finished-0.jsonl").read_text().splitlines()
    return sorted(map(json.loads, lines), key=lambda one: one["index"])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return digits.write(tmp_path_factory.mktemp("data") / "digits.jsonl", COUNT)


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """The tiny model with noise on its weights."""
    torch = require("torch")
    from buttress.train.generation.models import load_model

    folder = Path(shutil.copytree(CHECKPOINT, tmp_path_factory.mktemp("noisy") / "model"))
    model = load_model(str(folder), device="cpu")
    torch.manual_seed(0)
    with torch.no_grad():
        for one in model.parameters():
            one.add_(torch.randn_like(one) * 0.05)
    model.save_pretrained(folder)
    return str(folder)


def test_numbers_are_those_of_the_completions(tmp_path, data, capsys):
    found = evaluated(capsys, *arguments(data, "--out", tmp_path, "--keep", "--k", "1,2,4"))
    [folder] = tmp_path.glob("*/latent-skill")
    answers = [row["answer"] for row in digits.rows(COUNT)]
    greedy = [
        one["texts"][0] == right for one, right in _with(outcomes(folder / "greedy"), answers)
    ]
    won = [
        [text == right for text in one["texts"]]
        for one, right in _with(outcomes(folder / "sampled"), answers)
    ]
    [model] = found["models"]
    values = {name: one["value"] for name, one in model["measures"].items()}
    assert values["greedy"] == np.mean(greedy)
    assert values["avg@4"] == pytest.approx(np.mean(won))
    for k in (1, 2, 4):
        solved = [np.mean([any(some) for some in combinations(one, k)]) for one in won]
        assert values[f"pass@{k}"] == pytest.approx(np.mean(solved))
    assert all(one["low"] <= one["value"] <= one["high"] for one in model["measures"].values())
    assert (model["completions"], model["unscored"]) == (COUNT * (N + 1), 0)
    assert found["difference"] is None
    assert found["problems"] == COUNT


def _with(found, answers):
    assert [one["index"] for one in found] == list(range(len(answers)))
    return zip(found, answers, strict=True)


def test_a_model_does_not_differ_from_itself_and_a_noisy_one_is_worse(data, noisy, capsys):
    same = evaluated(capsys, *arguments(data, "--against", "latent-skill"))
    for one in same["difference"].values():
        assert (one["value"], one["p_value"], one["paired"]) == (0.0, 1.0, COUNT)
    other = evaluated(capsys, *arguments(data, "--against", noisy))
    first, second = (one["measures"]["avg@4"]["value"] for one in other["models"])
    assert other["difference"]["avg@4"]["value"] == pytest.approx(first - second)
    assert first > second


def test_the_terminal_shows_both_models_and_their_difference(data, noisy, capsys):
    assert call(*arguments(data, "--against", noisy)) == 0
    said = capsys.readouterr()
    assert "difference" in said.out
    assert "pass@4" in said.out
    assert "50 completions of 7 tokens on average" in said.out
    assert "10/10" in said.err


def test_an_ended_evaluation_goes_on_and_another_model_is_another_folder(tmp_path, data, capsys):
    given = arguments(data, "--out", tmp_path)
    first = evaluated(capsys, *given)
    for path in tmp_path.glob("*/latent-skill/sampled/finished-0.jsonl"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert evaluated(capsys, *given) == first
    copy = shutil.copytree(CHECKPOINT, tmp_path / "model")
    again = evaluated(capsys, *arguments(data, "--out", tmp_path, "--against", copy))
    assert again["models"][0] == first["models"][0]


def test_another_checkpoint_in_the_same_place_is_noticed(tmp_path, data, noisy, capsys):
    place = Path(shutil.copytree(CHECKPOINT, tmp_path / "model"))
    given = arguments(data, "--model", place, "--samples", "0", "--out", tmp_path / "out")
    assert call(*given) == 0
    shutil.copy(Path(noisy) / "model.safetensors", place)
    assert call(*given) == 2
    assert "weights:" in capsys.readouterr().err


def test_two_ranks_evaluate_together(tmp_path, data, capsys):
    alone = evaluated(capsys, *arguments(data, "--batch", N))
    launcher = ["torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m"]
    given = arguments(data, "--batch", N, "--out", tmp_path, "--json")
    code, out, err = digits.run(*given, launcher=launcher)
    assert code == 0, err
    assert json.loads(out) == alone


def test_greedy_alone(data, capsys):
    found = evaluated(capsys, *arguments(data, "--samples", "0"))
    assert list(found["models"][0]["measures"]) == ["greedy"]


def test_what_could_not_be_judged_is_unknown():
    greedy = [Outcome(0, [1.0], [1]), Outcome(1, [None], [1])]
    sampled = [Outcome(0, [1.0, None, 0.0], [1] * 3), Outcome(1, [None] * 3, [1] * 3)]
    found = measures(greedy, sampled, n=3, ks=[1, 2, 3])
    assert found["greedy"].tolist()[0] == 1.0
    assert np.isnan(found["greedy"][1])
    assert found["avg@3"][0] == 0.5
    assert found["pass@2"][0] == 1.0
    assert np.isnan(found["pass@3"]).all()
    assert np.isnan(found["avg@3"][1])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--k", "8"], "pass@8 needs at least 8 completions per problem and n is 4"),
        (["--k", "0"], "must be 1 or more"),
        (["--k", "x"], "numbers joined by commas"),
        (["--answer", "nosuch"], "it has: problem, answer, number"),
        (["--against", "runs/nosuch/model"], "no such model"),
        (["--samples", "-1"], "must be 1 or more"),
    ],
)
def test_bad_usage_is_a_message_and_exit_2(data, capsys, more, said):
    assert call(*arguments(data, *more)) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_ranks_need_a_folder(data, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert call(*arguments(data)) == 2
    assert "name it with --out" in capsys.readouterr().err


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmarks_without_a_network_say_what_to_fetch(name, monkeypatch, capsys):
    datasets = require("datasets")
    asked = []

    def fail(*args, **options):
        asked.append((args, options))
        raise ConnectionError("no network")

    monkeypatch.setattr(datasets, "load_dataset", fail)
    monkeypatch.setattr(hub, "reachable", lambda: False)
    assert call("evaluate", name, "--model", "latent-skill") == 2
    path = BENCHMARKS[name].path
    assert f"hf download {path} --repo-type dataset" in capsys.readouterr().err
    known = BENCHMARKS[name]
    assert asked[0][0] == (path, known.subset)
    assert asked[0][1]["split"] == known.split


def test_a_benchmark_from_a_file_keeps_its_way_of_asking(tmp_path, monkeypatch, capsys):
    """Options lettered under the question, and the letter judged."""
    rows = [{"question": "2+2?", "options": ["3", "4"], "answer": "B"}] * 2
    path = tmp_path / "mmlu.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = []

    class Fake:
        tokenizer = type("T", (), {"chat_template": None})()

        def sample(self, prompts, n, seed):
            from buttress.train.generation.sampling import Completion

            asked.extend(prompts)
            texts = ["It is A or B. Answer: (B)", "Answer: A"]
            return [[Completion(text, 5, False)] * n for text in texts]

    monkeypatch.setattr("buttress.train.outcomes.sampler_for", lambda *args, **options: Fake())
    given = ["evaluate", "mmlu-pro", "--at", path, "--model", "latent-skill", "--samples", "0"]
    found = evaluated(capsys, *given)
    assert found["models"][0]["measures"]["greedy"]["value"] == 0.5
    assert asked[0].startswith("2+2?\nA. 3\nB. 4\n")


def test_lighteval_that_is_not_there_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "lighteval", None)
    with pytest.raises(MissingExtraError, match=r"buttress\[evaluate\]"):
        evaluate_with_lighteval("math-500", ["latent-skill"])
    with pytest.raises(UsageError, match="lighteval has no task minerva"):
        evaluate_with_lighteval("minerva", ["latent-skill"])


def test_numbers_per_problem_are_taken_from_lighteval_and_the_rest_is_not():
    found = _values([{"em": 1, "list": [1, 2]}, {"em": 0.0, "list": [3]}, {}])
    assert list(found) == ["em"]
    assert found["em"][:2].tolist() == [1.0, 0.0]
    assert np.isnan(found["em"][2])
