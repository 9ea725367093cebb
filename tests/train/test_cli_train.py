"""The verb as users call it: flags over the file, checks, exit codes, messages."""

from __future__ import annotations

import json

import pytest

from buttress.cli import main
from tests.helpers import require
from tests.hooks import tiny
from tests.train import tiny_run

pytestmark = [pytest.mark.trl, *map(pytest.mark.filterwarnings, tiny.QUIET)]


def run(*arguments):
    with pytest.raises(SystemExit) as left:
        main(["train", *map(str, arguments)])
    return int(left.value.code or 0)


@pytest.fixture
def recipe(home, tmp_path):
    require("trl")
    data = {"path": "elsewhere.jsonl", "prompt": "problem"}
    remedy = {"name": "avspo", "alpha": 0.7}
    values = tiny_run.values(home, tmp_path / "out", data=data, remedy=remedy)
    (tmp_path / "run.toml").write_text(tiny_run.toml(values))
    return tmp_path / "run.toml"


def test_check_shows_the_settings_and_writes_nothing(recipe, capsys):
    flags = ("--remedy", "posterior", "--steps", 9, "--set", "trainer.learning_rate=2e-5")
    assert run(recipe, "--data", "d.jsonl", *flags, "--check", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["remedy"] == {"name": "posterior", "options": {}}
    assert found["steps"] == 9
    assert found["data"]["path"] == "d.jsonl"
    assert found["data"]["prompt"] == "problem"
    assert found["grpo_config"]["learning_rate"] == 2e-5
    assert found["grpo_config"]["per_device_train_batch_size"] == 8
    assert not (recipe.parent / "out").exists()
    assert run(recipe, "--check") == 0
    assert "remedy:" in capsys.readouterr().out


def test_a_training_by_flags_alone(home, tmp_path, capsys):
    out = tmp_path / "out"
    flags = ("--model", home / "model", "--data", home / "data.jsonl", "--reward", "exact")
    sizes = ("--steps", 1, "--prompts", 2, "--group-size", 4, "--seed", 3, "--out", out)
    more = ("--set", "trainer.max_completion_length=6", "--json")
    assert run(*flags, *sizes, *more) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["steps"] == 1
    assert "step 1/1" in printed.err
    assert len(tiny_run.rollouts(out)) == 8
    assert run(*flags, *sizes, *more) == 2
    assert "go on with --resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--remedy", "avsop"), "--remedy: unknown remedy 'avsop'. Did you mean 'avspo'"),
        (("--set", "remedy.alfa=1"), "--set remedy.alfa: unknown option of avspo 'alfa'"),
        (("--set", "trainer.lr=1"), "--set trainer.lr: unknown setting of [trainer] 'lr'"),
        (("--set", "trainer.beta=x"), "beta must be float; got 'x'"),
        (("--model", "nobody/nothing"), "hf download nobody/nothing --local-dir models/nothing"),
        (("--model", "./none"), "no such model: ./none"),
        (("--data", "none.jsonl"), "no such file or folder: none.jsonl (seen from "),
        (("--set", "data.prompt=nix"), "no column 'nix'"),
        (("--set", "data.chat=true"), "chat template"),
        (("--reward", "nowhere.py:f"), "there is no file nowhere.py"),
        (("--prompts", 1, "--group-size", 3, "--set", "updates=2"), "do not divide"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_and_nothing_is_written(
    recipe, home, monkeypatch, capsys, flags, said
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    first = () if "--data" in flags else ("--data", home / "data.jsonl")
    assert run(recipe, *first, *flags) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert said in error
    assert "Traceback" not in error
    assert not (recipe.parent / "out").exists()


def test_no_such_file(tmp_path, capsys):
    assert run(tmp_path / "none.toml") == 2
    assert "cannot read the settings" in capsys.readouterr().err
